{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Tls.Session
-- Description : One session as a layer
-- Stability   : hidden
--
-- The handshake, and the 'Layer' that it ends in. A step is one call of C; between steps the thread parks on its
-- registration. Two threads may use a session at once, one that reads and one that writes, so each step takes a lock
-- word; see Note [The lock word].
--
-- Invariants: nobody parks with the lock; what was encrypted is sent before anything else is; after 'closeSession' no
-- step touches the freed session.
-- Cost: a read or write is its cryptography, one system call and about 50 ns.
-- Owner: the connection's threads: one reads, one writes.
-- Shared writes per call: 0 beyond the session's own words.
module Heddle.Tls.Session
  ( Session,
    newSession,
    handshakeUntil,
    closeSession,
    liveSessions,
  )
where

import Control.Monad (void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.C.String (peekCString)
import Foreign.C.Types (CInt, CLong)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.IO.Registration
import Heddle.IO.Transport (Layer (..), LayerFacts (..), Opened (..))
import Heddle.Prim.Atomic
import Heddle.Prim.Buffer (Buffer, bufferPtr, keepAlive, newBuffer)
import Heddle.Prim.Clock (Deadline (..))
import Heddle.Prim.Errno (Errno (..), describeErrno, errnoNumber, pattern EAGAIN, pattern EINTR, pattern EPROTO)
import Heddle.Prim.Exception (mask_, onException)
import Heddle.Prim.File (readAt, readAtNoWait)
import Heddle.Prim.Socket qualified as S
import Heddle.Prim.Thread (yield)
import Heddle.Tls.Foreign
import Heddle.Tls.PerCapability
import System.Posix.Types (Fd (..))

-- | A session of libssl over a registration.
data Session = Session
  { sessionConn :: !(Ptr CConn),
    sessionRegistration :: !Registration,
    -- | See the @Word…@ patterns.
    sessionWords :: !Words,
    -- | Runs once, before the session is freed.
    sessionClosing :: !(Ptr CConn -> IO ())
  }

-- | 0: free; 1: a step runs; 2: the session is freed.
pattern WordLock :: Int
pattern WordLock = 0

-- | 1 if input is held; the reader's.
pattern WordHolds :: Int
pattern WordHolds = 1

-- | How many bytes the last write made, and how many of them were sent; the writer's.
pattern WordMade, WordSent :: Int
pattern WordMade = 2
pattern WordSent = 3

-- | 1 if the next step of the handshake may sign with an RSA key.
pattern WordHeavy :: Int
pattern WordHeavy = 4

-- | Who encrypts what is written: 'Libssl', 'Kernel', or, if negative, libssl for ever; the writer's.
pattern WordWriter :: Int
pattern WordWriter = 5

pattern Libssl, Kernel :: Int
pattern Libssl = 0
pattern Kernel = 1

-- | A file of which at least so much is left is worth giving the keys to the kernel: two system calls, and its ciphers' set-up.
--
-- [Units]: bytes.
kernelLeast :: Int
kernelLeast = 4 * pieceSize

-- | How many sessions are alive in this process, clients' and servers'.
--
-- [Cost]: one read.
-- [Blocks]: never.
liveSessions :: IO Int
liveSessions = fromIntegral <$> c_live

-- | A session from what C has made; the action runs before it is freed.
newSession :: Registration -> Ptr CConn -> (Ptr CConn -> IO ()) -> IO Session
newSession registration conn closing = do
  ws <- newWords 6
  faceHeavy conn >>= writeWord ws WordHeavy
  pure (Session conn registration ws closing)

-- Run a step with the lock; 'ClosedCode' when the session is freed. The caller is masked. Other
-- threads hold the lock for the time of a step, so a thread that finds it taken lets them run.
locked :: Session -> (Ptr CConn -> IO CLong) -> IO Int
locked session step = acquire
  where
    ws = sessionWords session
    acquire = do
      won <- compareAndSet ws WordLock 0 1
      if won
        then do
          r <- step (sessionConn session)
          writeRelease ws WordLock 0
          pure (fromIntegral r)
        else do
          state <- readAcquire ws WordLock
          if state == 2 then pure ClosedCode else yield >> acquire
{-# INLINE locked #-}

-- | Free the session, after telling the peer if the socket takes that at once. Idempotent.
--
-- [Cost]: one system call, if the session is open.
-- [Blocks]: never.
-- [Threads]: any; a step in progress is waited for.
closeSession :: Session -> IO ()
closeSession session = mask_ $ do
  _ <- using (sessionRegistration session) (\(Fd fd) -> locked session (`c_end` fd))
  release
  where
    ws = sessionWords session
    release = do
      won <- compareAndSet ws WordLock 0 1
      if won
        then do
          sessionClosing session (sessionConn session)
          c_free (sessionConn session)
          writeRelease ws WordLock 2
        else do
          state <- readAcquire ws WordLock
          when (state /= 2) (yield >> release)

-- Handshake --------------------------------------------------------------------

-- | Shake hands by the deadline. Unless the session is open, it has been freed.
--
-- [Blocks]: parks.
-- [Masking]: the caller is masked; waits are interruptible, and an interruption frees the session.
handshakeUntil :: Session -> Deadline -> IO Opened
handshakeUntil session deadline = go `onException` closeSession session
  where
    registration = sessionRegistration session
    go = do
      heavy <- readWord (sessionWords session) WordHeavy
      r <-
        if heavy == 0
          then attempt registration Readable deadline (step c_handshake)
          else signing (registrationCapability registration) (attempt registration Readable (Deadline 0) (step c_handshakeSafe))
      case r of
        HandshakeDone -> Opened <$> layerOf session
        Unsent -> do
          f <- attempt registration Writable deadline (\(Fd fd) -> locked session (`c_flush` fd))
          if f > 0 then go else failed f
        -- A step that may sign does not park with the lock of signing.
        TimedOutCode | heavy /= 0 -> do
          late <- deadlineOver registration deadline
          if late
            then failed TimedOutCode
            else do
              hung <- hungUp registration
              when hung (forgetHangUp registration)
              waitUntil registration Readable deadline
              go
        _ -> failed r
    step call (Fd fd) = locked session $ \conn -> do
      r <- call conn fd
      faceHeavy conn >>= writeWord (sessionWords session) WordHeavy
      faceHolds conn >>= writeWord (sessionWords session) WordHolds
      pure r
    failed r = do
      why <- reason
      closeSession session
      pure (NotOpened why)
      where
        reason
          | r == TimedOutCode = pure "the handshake was not finished in time"
          | r == ClosedCode = pure "the connection was closed during the handshake"
          | Errno (negate r) == EPROTO = peekCString (castPtr (sessionConn session) `plusPtr` faceText)
          | otherwise = pure ("the handshake failed: " ++ describeErrno (Errno (negate r)))

-- The layer -------------------------------------------------------------------

layerOf :: Session -> IO Layer
layerOf session = do
  facts <- factsOf session
  pure
    Layer
      { layerReadNow = readStepNow session,
        layerReadUntil = readStepUntil session,
        layerHoldsInput = (== 1) <$> readWord (sessionWords session) WordHolds,
        layerWriteSomeUntil = \p n deadline -> do
          writer <- readWord (sessionWords session) WordWriter
          if writer == Kernel then writeByKernel session p n deadline else writePiece session p n (\_ -> pure deadline),
        layerWriteFilePaced = writeFile' session,
        layerEndWriting = endSession session,
        layerClose = closeSession session,
        layerFacts = facts
      }

factsOf :: Session -> IO LayerFacts
factsOf session = do
  staging <- borrowStaging capability
  let fact :: CInt -> IO ByteString
      fact which = do
        n <- c_fact (sessionConn session) which (bufferPtr staging) (fromIntegral stagingSize)
        B.packCStringLen (castPtr (bufferPtr staging), fromIntegral n)
  version <- fact 0
  cipher <- fact 1
  protocol <- fact 2
  name <- fact 3
  peer <- fact 4
  keepAlive staging
  giveBackStaging capability staging
  pure (LayerFacts version cipher protocol name (if B.null peer then Nothing else Just peer))
  where
    capability = registrationCapability (sessionRegistration session)

-- Reading ----------------------------------------------------------------------

readStep :: Session -> Ptr Word8 -> Int -> CInt -> Fd -> IO Int
readStep session p n fresh (Fd fd) = locked session $ \conn -> do
  r <- c_read conn fd p (fromIntegral n) fresh
  faceHolds conn >>= writeWord (sessionWords session) WordHolds
  pure r

-- What is held is read without dropping the registration's token, which may stand for bytes that the socket has.
readStepNow :: Session -> Ptr Word8 -> Int -> IO Int
readStepNow session p n
  | n <= 0 = pure 0
  | otherwise = do
    held <- readWord (sessionWords session) WordHolds
    if held == 1
      then using registration (readStep session p n 0)
      else do
        -- A deadline that has passed: one try, which drops the token first.
        r <- attempt registration Readable (Deadline 0) (readStep session p n 1)
        pure (if r == TimedOutCode then negate (errnoNumber EAGAIN) else r)
  where
    registration = sessionRegistration session

readStepUntil :: Session -> Ptr Word8 -> Int -> Deadline -> IO Int
readStepUntil session p n deadline
  | n <= 0 = pure 0
  | otherwise = do
    held <- readWord (sessionWords session) WordHolds
    if held == 1
      then do
        r <- using registration (readStep session p n 0)
        if r == negate (errnoNumber EAGAIN) then waiting else pure r
      else waiting
  where
    registration = sessionRegistration session
    waiting = attempt registration Readable deadline (readStep session p n 1)

-- Writing ----------------------------------------------------------------------

-- Encrypt up to four records and send them all; the function computes the deadline of the next wait from the plain bytes
-- of this piece that are gone. After an interruption or a time-out the peer has part of a record, and C refuses further
-- writes.
writePiece :: Session -> Ptr Word8 -> Int -> (Int -> IO Deadline) -> IO Int
writePiece = writePieceThen (pure ())

-- The action runs when the plain bytes are no longer needed, before anything parks.
writePieceThen :: IO () -> Session -> Ptr Word8 -> Int -> (Int -> IO Deadline) -> IO Int
writePieceThen encrypted session p n deadlineAfter
  | n <= 0 = 0 <$ encrypted
  | otherwise = mask_ $ do
    staging <- borrowStaging capability
    done <- using registration $ \(Fd fd) -> locked session $ \conn -> do
      r <- c_write conn fd p (fromIntegral (min pieceSize n)) (bufferPtr staging) (fromIntegral stagingSize)
      faceMade conn >>= writeWord ws WordMade
      faceSent conn >>= writeWord ws WordSent
      pure r
    encrypted
    made <- readWord ws WordMade
    sent <- readWord ws WordSent
    case () of
      _
        | done <= 0 || sent == made -> done <$ finished staging
        -- A slow peer holds a buffer of the size of what it has not taken, if that is little.
        | made - sent <= stagingSize `quot` 2 -> do
          rest <- newBuffer (made - sent)
          copyBytes (bufferPtr rest) (bufferPtr staging `plusPtr` sent) (made - sent)
          finished staging
          r <- sendRest rest sent done made sent
          r <$ keepAlive rest
        | otherwise -> do
          r <- sendRest staging 0 done made sent
          r <$ finished staging
  where
    registration = sessionRegistration session
    capability = registrationCapability registration
    ws = sessionWords session
    finished staging = keepAlive staging >> giveBackStaging capability staging
    -- The buffer begins with this byte of the records.
    sendRest :: Buffer -> Int -> Int -> Int -> Int -> IO Int
    sendRest buffer begins done made sent
      | sent == made = do
        r <- using registration (\(Fd fd) -> locked session (`c_written` fd))
        pure (if r < 0 then r else done)
      | otherwise = do
        deadline <- deadlineAfter (done * sent `quot` made)
        r <- attempt registration Writable deadline (\fd -> S.send fd (bufferPtr buffer `plusPtr` (sent - begins)) (made - sent))
        if r < 0 then pure r else sendRest buffer begins done made (sent + r)

-- The kernel has the keys, and encrypts what the socket takes.
writeByKernel :: Session -> Ptr Word8 -> Int -> Deadline -> IO Int
writeByKernel session p n deadline
  | n <= 0 = pure 0
  | otherwise = attempt (sessionRegistration session) Writable deadline $ \(Fd fd) ->
    locked session (\conn -> c_kernelWrite conn fd p (fromIntegral (min pieceSize n)))

-- After a part of the file, C refuses to say farewell, which would make a whole of it.
writeFileByKernel :: Session -> Fd -> Int64 -> Int -> (Int -> IO Deadline) -> IO Int
writeFileByKernel session file offset count deadlineAfter = mask_ $ do
  begun <- step c_kernelFile
  if begun < 0
    then pure 0
    else do
      done <- sendFilePaced registration file offset count deadlineAfter
      when (done == count) (void (step c_written))
      pure done
  where
    registration = sessionRegistration session
    step call = using registration (\(Fd fd) -> locked session (`call` fd))

-- By the kernel, if it can and much is left. Otherwise read a piece of the file, encrypt, send. What was not encrypted of a piece is read
-- again, so that nothing but records is held while the socket is waited for.
writeFile' :: Session -> Fd -> Int64 -> Int -> (Int -> IO Deadline) -> IO Int
writeFile' session file offset count deadlineAfter = go 0
  where
    registration = sessionRegistration session
    capability = registrationCapability registration
    ws = sessionWords session
    go done
      | done >= count = pure done
      | otherwise = do
        writer <- readWord ws WordWriter
        now <- if writer == Libssl && count - done >= kernelLeast then toKernel else pure writer
        if now == Kernel
          then (done +) <$> writeFileByKernel session file (offset + fromIntegral done) (count - done) (\more -> deadlineAfter (done + more))
          else byLibssl done
    toKernel = mask_ $ do
      now <- using registration (\(Fd fd) -> locked session (fmap fromIntegral . (`c_toKernel` fd)))
      now <$ writeWord ws WordWriter now
    byLibssl done = do
      plain <- borrowStaging capability
      let finished = keepAlive plain >> giveBackStaging capability plain
      n <- readPiece (bufferPtr plain) (min pieceSize (count - done)) (offset + fromIntegral done)
      r <- writePieceThen finished session (bufferPtr plain) n (\gone -> deadlineAfter (done + gone))
      if r <= 0 then pure done else go (done + r)
    readPiece p n at = do
      cached <- readAtNoWait file p n at
      if cached > 0 then pure cached else fromDisk p n at
    fromDisk p n at = do
      r <- readAt file p n at
      if Errno (negate r) == EINTR then fromDisk p n at else pure r

-- Ending -----------------------------------------------------------------------

endSession :: Session -> IO Int
endSession session = do
  r <- using registration (\(Fd fd) -> locked session (`c_end` fd))
  if r < 0 then pure r else endSending registration
  where
    registration = sessionRegistration session

-- Note [The lock word]
-- ~~~~~~~~~~~~~~~~~~~~
-- libssl's sessions are not safe for two threads: a reader answers a change of keys by writing. Each step of C runs with
-- the lock word at 1. The holder is in an unsafe call and two instructions around it, so it cannot park, and it can lose
-- its capability only between them; a thread that finds the word taken yields, and the holder goes on. Steps are masked:
-- no exception comes between taking and releasing.
--
-- One step is a safe call, 'c_toKernel', once in a session: meanwhile the holder has no capability, and who finds the word
-- taken yields until the kernel has set up its cipher.
--
-- The records of a write leave outside of the lock, because sending may park. C remembers that they are on their way:
-- a reader that must answer meanwhile leaves its record behind, and it goes out with, or after, the rest.
