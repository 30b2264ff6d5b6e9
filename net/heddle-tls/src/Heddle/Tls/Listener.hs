-- |
-- Module      : Heddle.Tls.Listener
-- Description : Opening sessions of clients, and reloading
-- Stability   : hidden; "Heddle.Tls" exports it
--
-- A listener holds the site that new handshakes use, and the ticket keys, which outlive a reload.
--
-- Invariant: a handshake uses one site from its beginning to its end.
-- Cost: opening reads one reference; the counts are three shared additions for each connection.
-- Owner: any thread may open, swap and reload.
module Heddle.Tls.Listener
  ( TlsListener,
    newTlsListener,
    listenerSite,
    tlsOpening,

    -- * Reloading
    swapSite,
    reloadWhenChanged,
    reloadEvery,
    Reload (..),

    -- * Tickets
    rotateTicketKeys,

    -- * Counts
    TlsCounts (..),
    tlsCounts,
  )
where

import Control.Monad (forever)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Foreign.ForeignPtr (ForeignPtr, newForeignPtr, withForeignPtr)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (castPtr, nullPtr)
import Foreign.Storable (peek, peekElemOff)
import Heddle.IO.Registration
import Heddle.IO.Transport (Layer (..), Opened (..), Opening)
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Buffer (bufferPtr, bufferSize, keepAlive)
import Heddle.Prim.Clock (Nanos (..), seconds)
import Heddle.Prim.Errno (Errno (..), describeErrno)
import Heddle.Prim.Exception (mask_, onException, throwIO)
import Heddle.Prim.Lock (Lock, newLock, withLock)
import Heddle.Timer (sleepFor)
import Heddle.Tls.Config
import Heddle.Tls.Foreign
import Heddle.Tls.Problem
import Heddle.Tls.Session
import Heddle.Tls.Site
import Heddle.Tls.Unfinished

-- | What the sessions of a server share.
data TlsListener = TlsListener
  { listenerCurrent :: !(Ref TlsSite),
    listenerShared :: !(ForeignPtr CShared),
    -- | The stamps of the files of the last reload that failed, and what was wrong.
    listenerRefused :: !(Ref (Maybe ([(FilePath, Maybe FileStamp)], [TlsProblem]))),
    -- | One reload at a time.
    listenerReloading :: !Lock,
    listenerUnfinished :: !Unfinished
  }

-- | A listener for a site. Ticket keys are made from the site's settings, once: a site that is swapped in later gets the
-- keys of the first.
--
-- [Cost]: 10 microseconds; with a shared secret, a millisecond, or 40 with the shortest period.
-- [Throws]: 'TlsProblem' when memory has run out.
newTlsListener :: TlsSite -> IO TlsListener
newTlsListener site = do
  kernel <- if tlsKernel config then c_kernelHas else pure 0
  shared <- mask_ $ do
    p <- unsafeUseAsCStringLen (siteSecret site) $ \(s, n) -> c_sharedNew (castPtr s) (fromIntegral n) (fromIntegral period) kernel
    if p == nullPtr then throwIO (TlsProblem "TLS" (Refused "memory has run out")) else newForeignPtr p_sharedRelease p
  TlsListener <$> newRef site <*> pure shared <*> newRef Nothing <*> newLock <*> newUnfinished
  where
    config = siteConfig site
    period = nanosCount (tlsTicketPeriod config) `quot` nanosCount (seconds 1)

-- | The site that new handshakes use.
listenerSite :: TlsListener -> IO TlsSite
listenerSite = readRef . listenerCurrent

-- | Let new handshakes use this site. Handshakes in progress and open sessions keep theirs; the last of them frees it.
--
-- [Cost]: one store.
-- [Blocks]: never.
-- [Threads]: any.
swapSite :: TlsListener -> TlsSite -> IO ()
swapSite listener = writeRef (listenerCurrent listener)

-- | Open a server's session. A peer that begins with anything but a TLS record is 'OtherProtocol', with at most 8,192 bytes.
--
-- [Cost]: 0.2 ms with an elliptic curve, 0.4 to 4 ms with RSA, 0.15 ms resumed; 14 KB while it is open.
-- [Blocks]: parks; signing with an RSA key holds an OS thread, one for each capability.
-- [Masking]: the caller is masked; waits are interruptible, and an interruption leaves nothing behind.
-- [Threads]: any, one for each connection.
tlsOpening :: TlsListener -> Opening
tlsOpening listener registration deadline = do
  buffer <- borrowBuffer registration
  -- No more than the input of heddle-http's workspaces has room for. What is left behind has a token.
  n <- receiveUntil registration (bufferPtr buffer) (min 8192 (bufferSize buffer)) deadline
  first <- if n > 0 then peek (bufferPtr buffer) else pure 0
  begun <- case () of
    _
      | n == 0 -> no "the peer ended the connection before the handshake"
      | n == TimedOutCode -> no "the peer sent nothing"
      | n == ClosedCode -> no "the connection was closed"
      | n < 0 -> no (describeErrno (Errno (negate n)))
      -- The type of a record with a handshake.
      | first /= 0x16 -> Left . OtherProtocol <$> B.packCStringLen (castPtr (bufferPtr buffer), n)
      | otherwise -> do
        site <- readRef (listenerCurrent listener)
        conn <- withSite site $ \p -> withForeignPtr (listenerShared listener) $ \shared -> c_accept p shared (bufferPtr buffer) (fromIntegral n)
        if conn == nullPtr then no "memory has run out" else Right . (,) site <$> newSession registration conn (\_ -> pure ())
  keepAlive buffer
  giveBackBuffer registration buffer
  either pure bounded begun
  where
    no = pure . Left . NotOpened
    unfinished = listenerUnfinished listener
    bounded (site, session) = do
      key <- beginHandshake unfinished (tlsUnfinished (siteConfig site)) registration
      opened <- handshakeUntil session deadline `onException` finishHandshake unfinished registration key
      stands <- finishHandshake unfinished registration key
      if stands then pure opened else closed opened
    closed opened = do
      case opened of
        Opened layer -> layerClose layer
        _ -> pure ()
      pure (NotOpened "the handshake was closed, because too many later ones were unfinished too")

-- Reloading --------------------------------------------------------------------

-- | How a look at the files ended.
data Reload
  = -- | Nothing is new since the last look that loaded or refused the files.
    Unchanged
  | -- | The new files are in use.
    Reloaded !TlsSite
  | -- | Files have changed and cannot be used. What was loaded before stays in use.
    KeptOld ![TlsProblem]

-- | Look whether the site's files have changed, through symbolic links, and load them if so. Files that were refused are
-- tried again at each look, because what was wrong may pass without a change of theirs: a disk that failed, a process
-- without descriptors, a date that had not come. The same refusal of the same files is not reported again.
--
-- [Cost]: three system calls for each file; loading, if one has changed since the site in use was loaded.
-- [Blocks]: holds an OS thread while it looks; parks while another thread reloads.
-- [Threads]: any.
reloadWhenChanged :: TlsListener -> IO Reload
reloadWhenChanged listener = withLock (listenerReloading listener) $ do
  site <- readRef (listenerCurrent listener)
  let loaded = [(path, Just stamp) | (path, stamp) <- siteFiles site]
  now <- traverse (\(path, _) -> (,) path <$> stampOf (siteOpener site) path) loaded
  if now == loaded
    then Unchanged <$ writeRef (listenerRefused listener) Nothing
    else
      loadSiteBy (siteOpener site) (siteConfig site) >>= \case
        Left problems -> do
          refused <- readRef (listenerRefused listener)
          if refused == Just (now, problems)
            then pure Unchanged
            else KeptOld problems <$ writeRef (listenerRefused listener) (Just (now, problems))
        Right new -> do
          swapSite listener new
          writeRef (listenerRefused listener) Nothing
          pure (Reloaded new)

-- | 'reloadWhenChanged' for ever, with this pause, telling the action what happened unless nothing did. Fork it.
--
-- [Blocks]: parks.
-- [Throws]: what the action throws, and 'Heddle.IO.IOManagerError' when the runtime ends.
reloadEvery :: TlsListener -> Nanos -> (Reload -> IO ()) -> IO a
reloadEvery listener pause tell = forever $ do
  sleepFor pause
  reloadWhenChanged listener >>= \case
    Unchanged -> pure ()
    outcome -> tell outcome

-- Tickets and counts -----------------------------------------------------------

-- | Make the next ticket key the present one at once, as if a period had passed. After four rotations no earlier ticket is
-- accepted.
--
-- [Cost]: some microseconds.
-- [Blocks]: never.
-- [Threads]: any.
rotateTicketKeys :: TlsListener -> IO ()
rotateTicketKeys listener = withForeignPtr (listenerShared listener) c_sharedRotate

-- | Handshakes of a listener since it was made.
data TlsCounts = TlsCounts
  { countFull :: !Int,
    -- | Resumed by a ticket.
    countResumed :: !Int,
    -- | Refused by one of the sides, or garbled; without those that were interrupted, took too long or were closed.
    countFailed :: !Int,
    -- | Closed unfinished, because there were too many ('tlsUnfinished').
    countClosed :: !Int,
    -- | Sessions whose writing was given to the kernel ('tlsKernel').
    countKernel :: !Int
  }
  deriving stock (Eq, Show)

-- | The counts.
--
-- [Cost]: five reads.
-- [Blocks]: never.
tlsCounts :: TlsListener -> IO TlsCounts
tlsCounts listener = withForeignPtr (listenerShared listener) $ \shared -> allocaBytes 32 $ \p -> do
  c_sharedCounts shared p
  TlsCounts <$> at p 0 <*> at p 1 <*> at p 2 <*> closedHandshakes (listenerUnfinished listener) <*> at p 3
  where
    at p i = fromIntegral <$> peekElemOff p i
