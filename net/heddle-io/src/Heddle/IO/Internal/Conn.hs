{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.IO.Internal.Conn
-- Description : Bytes over one registered descriptor
-- Stability   : internal, exempt from the version policy
--
-- A connection is a 'Slot' whose descriptor carries bytes. Functions here answer with
-- numbers (a count, or a negative code); "Heddle.IO" turns them into types.
--
-- Cost: receiving or sending is one system call and about 20 ns; nothing is registered,
-- nothing allocated unless it waits.
-- Owner: one reader and one writer at a time; closing from any thread.
module Heddle.IO.Internal.Conn
  ( -- * Receiving
    receiveNow,
    receiveUntil,
    readUntil,

    -- * Sending
    sendNow,
    sendAllUntil,
    sendMoreAllUntil,
    sendFileAllUntil,

    -- * Codes
    pattern TimedOutCode,
    pattern ClosedCode,
    throwCode,
    IOClosed (..),
  )
where

import Control.Monad (when)
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, plusPtr)
import Heddle.IO.Internal.Slot
import Heddle.IO.Internal.Types
import Heddle.Prim.Clock (Deadline)
import Heddle.Prim.Errno
import Heddle.Prim.Exception (Exception (..), mask_, throwIO)
import Heddle.Prim.File (sendFile)
import Heddle.Prim.Socket qualified as S
import Heddle.Prim.WaitCell (reset, unpark)
import System.Posix.Types (Fd)

-- | A descriptor was used after it was closed, here or by another thread.
newtype IOClosed = IOClosed String

instance Show IOClosed where
  showsPrec d e = showParen (d > 10) (showString (displayException e))

instance Exception IOClosed where
  displayException (IOClosed what) = what ++ ": the connection is closed"

-- | Raise a negative answer.
--
-- [Throws]: 'IOClosed', or 'IOError' with the errno.
throwCode :: String -> Int -> IO a
throwCode what code
  | code == ClosedCode = throwIO (IOClosed what)
  | code == TimedOutCode = throwErrnoFor what ETIMEDOUT
  | otherwise = throwErrnoFor what (Errno (negate code))

-- | Receive what there is; minus EAGAIN when there is nothing. The caller is masked.
--
-- [Blocks]: never.
receiveNow :: Slot -> Ptr Word8 -> Int -> IO Int
receiveNow slot p n = do
  _ <- reset (slotRead slot)
  filled slot n =<< usingMasked slot (\fd -> S.recv fd p n)
{-# INLINE receiveNow #-}

-- | Receive at least one byte; 0 is the peer's end.
--
-- [Blocks]: parks.
receiveUntil :: Slot -> Ptr Word8 -> Int -> Deadline -> IO Int
receiveUntil slot p n deadline = filled slot n =<< attempt slot Readable deadline (\fd -> S.recv fd p n)
{-# INLINE receiveUntil #-}

-- | 'receiveUntil' for what is not a socket.
--
-- [Blocks]: parks.
readUntil :: Slot -> Ptr Word8 -> Int -> Deadline -> IO Int
readUntil slot p n deadline = filled slot n =<< attempt slot Readable deadline (\fd -> S.readFd fd p n)

-- A full buffer may leave bytes behind, whose edge is spent: keep a token. The end keeps
-- one for a second reader, if somebody has one.
filled :: Slot -> Int -> Int -> IO Int
filled slot n r = do
  when (r == n || r == 0) (unpark (slotRead slot))
  pure r
{-# INLINE filled #-}

-- | Send what the socket takes at once; minus EAGAIN when that is nothing. The caller is
-- masked.
--
-- [Blocks]: never.
sendNow :: Slot -> Ptr Word8 -> Int -> IO Int
sendNow slot p n = usingMasked slot (\fd -> S.send fd p n)
{-# INLINE sendNow #-}

-- | Send everything: the count, or a code; what was sent by then is unknown to the peer's
-- program, so a failed connection is of no more use.
--
-- [Blocks]: parks.
sendAllUntil :: Slot -> Ptr Word8 -> Int -> Deadline -> IO Int
sendAllUntil slot p n deadline = mask_ $ do
  -- Most sockets take it all; only waiting needs the cell reset.
  r <- sendNow slot p n
  if r == n then pure n else slowly (max 0 r)
  where
    slowly done = do
      rest <- whole (n - done) (p `plusPtr` done) $ \q left ->
        attempt slot Writable deadline (\fd -> S.send fd q left)
      pure (if rest < 0 then rest else n)
{-# INLINE sendAllUntil #-}

-- | 'sendAllUntil', announcing that more follows at once.
--
-- [Blocks]: parks.
sendMoreAllUntil :: Slot -> Ptr Word8 -> Int -> Deadline -> IO Int
sendMoreAllUntil slot p n deadline = whole n p $ \q left -> attempt slot Writable deadline (\fd -> S.sendMore fd q left)

whole :: Int -> Ptr Word8 -> (Ptr Word8 -> Int -> IO Int) -> IO Int
whole n p step = go p n
  where
    go q left = do
      r <- step q left
      if r < 0
        then pure r
        else if r >= left then pure n else go (q `plusPtr` r) (left - r)
{-# INLINE whole #-}

-- | Send a part of a file: the count, which is short if the file ended early or the
-- connection failed. Goes on after each full socket without asking for the position or the
-- size again; the action gives the deadline of the next piece, given the count so far.
--
-- [Blocks]: parks; while pages come from the disk, holds an OS thread.
-- [Source]: Mighttpd, simple-sendfile.
sendFileAllUntil :: Slot -> Fd -> Int64 -> Int -> (Int -> IO Deadline) -> IO Int
sendFileAllUntil slot file offset count deadlineAfter = go 0
  where
    go done
      | done == count = pure count
      | otherwise = do
        deadline <- deadlineAfter done
        r <- attempt slot Writable deadline $ \out ->
          sendFile out file (offset + fromIntegral done) (min 0x400000 (count - done))
        if r <= 0 then pure done else go (done + r)
