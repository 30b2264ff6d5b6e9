{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.IO.Internal.Transfer
-- Description : Bytes over one registered descriptor
-- Stability   : hidden; "Heddle.IO.Registration" exports what is public
--
-- Sending and receiving over a registration. Functions answer with numbers (a count, or a
-- negative code); "Heddle.IO" turns them into types.
--
-- Cost: receiving or sending is one system call and about 20 ns; nothing is registered,
-- nothing allocated unless it waits.
-- Owner: one reader and one writer at a time; closing from any thread.
module Heddle.IO.Internal.Transfer
  ( -- * Receiving
    receiveNow,
    receiveUntil,

    -- * Sending
    sendNow,
    sendUntil,
    sendMoreUntil,
    sendVectorUntil,
    sendVectorWith,
    pokePiece,
    pieceBytes,
    sendFilePaced,
    endSending,

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
import Foreign.Storable (peekByteOff, pokeByteOff)
import Heddle.IO.Internal.Exception (HeddleIOException (..), fromHeddleIO)
import Heddle.IO.Internal.Registration
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
  toException = toException . HeddleIOException
  fromException = fromHeddleIO
  displayException (IOClosed what) = what ++ ": the connection is closed"

-- | Throw what a negative answer means; the string says what was tried.
--
-- [Throws]: 'IOClosed', or 'IOError' with the errno (ETIMEDOUT for 'TimedOutCode').
throwCode :: String -> Int -> IO a
throwCode what code
  | code == ClosedCode = throwIO (IOClosed what)
  | code == TimedOutCode = throwErrnoFor what ETIMEDOUT
  | otherwise = throwErrnoFor what (Errno (negate code))

-- | @receiveNow registration pointer count@ receives what there is: a count, 0 at the peer's
-- end, minus EAGAIN when there is nothing, or 'ClosedCode'.
--
-- [Cost]: one system call and about 15 ns; nothing allocated.
-- [Blocks]: never.
-- [Masking]: the caller is masked, as a service's handler is.
-- [Threads]: one reader at a time.
receiveNow :: Registration -> Ptr Word8 -> Int -> IO Int
receiveNow registration p n = do
  _ <- reset (registrationRead registration)
  filled registration n =<< usingMasked registration (\fd -> S.recv fd p n)
{-# INLINE receiveNow #-}

-- | @receiveUntil registration pointer count deadline@ receives at least one byte and at
-- most @count@. The answer is the count, 0 at the peer's end, or a negative code.
--
-- [Cost]: one system call and about 20 ns, if it need not park; nothing allocated.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked.
-- [Units]: bytes.
-- [Threads]: one reader at a time.
receiveUntil :: Registration -> Ptr Word8 -> Int -> Deadline -> IO Int
receiveUntil registration p n deadline = filled registration n =<< attempt registration Readable deadline (\fd -> S.recv fd p n)
{-# INLINE receiveUntil #-}

-- After a full buffer, bytes may be left that cause no further edge, so leave a token. The end of
-- the stream also leaves one, for a second reader.
filled :: Registration -> Int -> Int -> IO Int
filled registration n r = do
  when (r == n || r == 0) (unpark (registrationRead registration))
  pure r
{-# INLINE filled #-}

-- | @sendNow registration pointer count@ sends what the socket takes at once: a count, minus
-- EAGAIN when that is nothing, or another negative code.
--
-- [Cost]: one system call and about 15 ns; nothing allocated.
-- [Blocks]: never.
-- [Masking]: the caller is masked, as a service's handler is.
-- [Threads]: one writer at a time.
sendNow :: Registration -> Ptr Word8 -> Int -> IO Int
sendNow registration p n = usingMasked registration (\fd -> S.send fd p n)
{-# INLINE sendNow #-}

-- | @sendUntil registration pointer count deadline@ sends all bytes. The answer is the
-- count or a negative code, after which some of the bytes may have gone: close the
-- connection.
--
-- [Cost]: one system call and about 20 ns, if it need not park; nothing allocated.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked.
-- [Units]: bytes.
-- [Threads]: one writer at a time.
sendUntil :: Registration -> Ptr Word8 -> Int -> Deadline -> IO Int
sendUntil registration p n deadline = mask_ $ do
  -- Most sockets take it all; only waiting needs the cell reset.
  r <- sendNow registration p n
  if r == n then pure n else slowly (max 0 r)
  where
    slowly done = do
      rest <- whole (n - done) (p `plusPtr` done) $ \q left ->
        attempt registration Writable deadline (\fd -> S.send fd q left)
      pure (if rest < 0 then rest else n)
{-# INLINE sendUntil #-}

-- | 'sendUntil', telling the kernel that more follows at once (MSG_MORE), so that a head
-- and the beginning of a file share a packet.
--
-- [Cost]: as 'sendUntil'.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked.
-- [Units]: bytes.
-- [Threads]: one writer at a time.
sendMoreUntil :: Registration -> Ptr Word8 -> Int -> Deadline -> IO Int
sendMoreUntil registration p n deadline = whole n p $ \q left -> attempt registration Writable deadline (\fd -> S.sendMore fd q left)

whole :: Int -> Ptr Word8 -> (Ptr Word8 -> Int -> IO Int) -> IO Int
whole n p step = go p n
  where
    go q left = do
      r <- step q left
      if r < 0
        then pure r
        else if r >= left then pure n else go (q `plusPtr` r) (left - r)
{-# INLINE whole #-}

-- | @sendVectorUntil registration vector pieces deadline@ gathers: it sends all bytes of
-- the pieces of memory, at most 1,024, that 'pokePiece' has listed at @vector@. The answer is
-- the number of bytes or a negative code, as 'sendUntil' answers. The list is used up: it is
-- changed when the socket takes less than all.
--
-- [Cost]: one system call and about 20 ns, if it need not park; nothing allocated.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked.
-- [Units]: pieces; the answer in bytes.
-- [Threads]: one writer at a time.
sendVectorUntil :: Registration -> Ptr Word8 -> Int -> Deadline -> IO Int
sendVectorUntil registration vector pieces deadline =
  sendVectorWith registration vector pieces deadline $ \code sent -> pure (if code < 0 then code else sent)

-- | 'sendVectorUntil' with a continuation: the code that ended it, 0 for none, and the
-- number of bytes sent by then.
--
-- [Blocks]: parks.
sendVectorWith :: Registration -> Ptr Word8 -> Int -> Deadline -> (Int -> Int -> IO r) -> IO r
sendVectorWith registration vector0 pieces0 deadline finish = go vector0 pieces0 0
  where
    go vector pieces sent
      | pieces <= 0 = finish 0 sent
      | otherwise = do
        r <- attempt registration Writable deadline (\fd -> S.sendVector fd vector pieces)
        if r < 0 then finish r sent else consume vector pieces r (sent + r)
    consume vector pieces left sent
      | pieces <= 0 = finish 0 sent
      | otherwise = do
        size <- peekByteOff vector 8
        if left >= size
          then consume (vector `plusPtr` pieceBytes) (pieces - 1) (left - size) sent
          else do
            base <- peekByteOff vector 0
            pokePiece vector 0 (base `plusPtr` left) (size - left)
            go vector pieces sent
{-# INLINE sendVectorWith #-}

-- | @pokePiece vector index pointer count@ lists a piece of memory for 'sendVectorUntil'.
--
-- [Cost]: two stores.
pokePiece :: Ptr Word8 -> Int -> Ptr Word8 -> Int -> IO ()
pokePiece vector index p n = do
  pokeByteOff vector (pieceBytes * index) p
  pokeByteOff vector (pieceBytes * index + 8) n
{-# INLINE pokePiece #-}

-- | The size of an entry of the list, the kernel's @struct iovec@.
--
-- [Units]: bytes.
pieceBytes :: Int
pieceBytes = 16

-- | @sendFilePaced registration file offset count deadlineAfter@ sends a part of a file
-- without copying it through the program. The answer is the count sent, which is short if
-- the file ended early or the connection failed. After each full socket it continues without
-- reading the position or the size again; the action computes the deadline of the next
-- piece from the count so far, so that a slow client can be held to a rate.
--
-- [Cost]: one system call for every 4 MiB or full socket.
-- [Blocks]: parks; while pages come from the disk, holds an OS thread.
-- [Masking]: interruptible while parked.
-- [Units]: bytes.
-- [Threads]: one writer at a time.
-- [Source]: Mighttpd, simple-sendfile.
sendFilePaced :: Registration -> Fd -> Int64 -> Int -> (Int -> IO Deadline) -> IO Int
sendFilePaced registration file offset count deadlineAfter = go 0
  where
    go done
      | done == count = pure count
      | otherwise = do
        deadline <- deadlineAfter done
        r <- attempt registration Writable deadline $ \out ->
          sendFile out file (offset + fromIntegral done) (min 0x400000 (count - done))
        if r <= 0 then pure done else go (done + r)

-- | End the sending direction: the peer reads the end after what was sent. Receiving goes
-- on. The answer is 0 or a negative code.
--
-- [Cost]: one system call.
-- [Blocks]: never.
-- [Threads]: any.
endSending :: Registration -> IO Int
endSending registration = using registration (`S.shutdown` S.ShutWrite)
