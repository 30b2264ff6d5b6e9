{-# LANGUAGE PatternSynonyms #-}
{-# LANGUAGE TupleSections #-}

-- |
-- Module      : Heddle.WebSocket.Send
-- Description : Frames on their way out
-- Stability   : hidden; "Heddle.WebSocket" exports what is public
--
-- Any number of threads send. A message holds the connection's message gate, each of its frames the frame gate;
-- control frames need only the latter. The receiver never waits for a sender: the control frames that it has to send
-- are left for the thread in the frame gate, which sends them before it leaves ('offer', 'leaveFrames').
--
-- Head and payload leave in one system call. A frame of the receiver's thread waits in the output buffer while there is
-- more input, since the receiver flushes before it parks.
--
-- Invariant: outside of the frame gate the output buffer is empty, or the receiver will flush it.
-- Invariant: a frame of which a part may have been sent is sent whole, or nothing is sent after it.
-- Cost: a message is a copy of up to 32 KiB, its system call, and about 60 ns.
-- Owner: the thread in the gates.
module Heddle.WebSocket.Send
  ( -- * Messages
    sendText,
    sendBinary,
    sendBinaryLazy,
    sendTextPieces,
    sendBinaryPieces,
    flush,

    -- * Control frames
    sendPing,
    close,
    sendClose,
    offer,
    pongNow,
    pingNow,
    closing,
    flushGathered,

    -- * Failure
    breakOff,
  )
where

import Control.Applicative ((<|>))
import Control.Monad (unless, void, when)
import Data.Bits ((.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Lazy qualified as L
import Data.ByteString.Unsafe qualified as B (unsafeDrop, unsafeUseAsCStringLen)
import Data.Foldable (for_, traverse_)
import Data.Word (Word32, Word8)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Bytes.Hash (hashWith)
import Heddle.Bytes.Utf8 (Utf8, toByteString)
import Heddle.IO (unpark)
import Heddle.IO.Registration (borrowBuffer, closeRegistration, connectionOf, giveBackBuffer, pattern ClosedCode, pattern TimedOutCode)
import Heddle.IO.Transport
import Heddle.Prim.Atomic (Ref, atomicWrite, modifyRef, newRef, readRef, writeRef)
import Heddle.Prim.Buffer (Buffer, bufferSize, withBuffer)
import Heddle.Prim.Clock (Deadline (..), deadlineIn)
import Heddle.Prim.Errno (Errno (..), describeErrno)
import Heddle.Prim.Exception (SomeException, allowInterrupt, fromException, mask, mask_, onException, throwIO, try)
import Heddle.Prim.Thread (myThreadId)
import Heddle.WebSocket.Connection
import Heddle.WebSocket.Deflate (Deflating (..), deflateEnd, deflateMessage, deflatePiece)
import Heddle.WebSocket.Exception
import Heddle.WebSocket.Flate (Flate, Kind (..), borrowFlate, giveBackFlate)
import Heddle.WebSocket.Frame
import Heddle.WebSocket.Gate
import Heddle.WebSocket.Mask
import Heddle.WebSocket.Options

-- | Send a text.
--
-- [Cost]: a copy of up to 32 KiB and a system call. Compressed, about 10 ns a byte.
-- [Blocks]: parks while another message is being sent, and while the peer takes nothing, for at most 'optionSend'.
-- [Masking]: interruptible while parked; if a part of the message had been sent by then, the connection is closed.
-- [Throws]: 'ConnectionEnded'.
-- [Threads]: any; messages leave in the order of the calls.
sendText :: Connection -> Utf8 -> IO ()
sendText conn = sendMessage conn OpText . toByteString

-- | Send bytes.
--
-- [Cost]: as 'sendText'.
-- [Blocks]: as 'sendText'.
-- [Masking]: as 'sendText'.
-- [Throws]: 'ConnectionEnded'.
-- [Threads]: any.
sendBinary :: Connection -> ByteString -> IO ()
sendBinary conn = sendMessage conn OpBinary

-- | Send bytes in chunks, as one frame.
--
-- [Cost]: as 'sendText'; a copy more if the message is compressed.
-- [Blocks]: as 'sendText'.
-- [Masking]: as 'sendText'.
-- [Throws]: 'ConnectionEnded'.
-- [Threads]: any.
sendBinaryLazy :: Connection -> L.ByteString -> IO ()
sendBinaryLazy conn message = case connDeflating conn of
  Just deflating | size >= deflatingThreshold deflating -> sendBinary conn (L.toStrict message)
  _ -> inMessage conn (inFrame conn (writeFrame conn (FinalBit .|. OpBinary) size (L.toChunks message)))
  where
    size = fromIntegral (L.length message)

sendMessage :: Connection -> Int -> ByteString -> IO ()
sendMessage conn opcode message = case connDeflating conn of
  Just deflating
    | B.length message >= deflatingThreshold deflating ->
      deflateMessage deflating message >>= \case
        Just smaller -> frame DeflateBit smaller
        Nothing -> frame 0 message
  _ -> frame 0 message
  where
    frame bits payload = inMessage conn (inFrame conn (writeFrame conn (FinalBit .|. bits .|. opcode) (B.length payload) [payload]))
    {-# INLINE frame #-}

-- | Send a text in pieces while they are made: the action gets the function that sends one. Each piece is a frame (of a long one that
-- is compressed, several). The message is compressed if its first piece is as long as a message must be ('deflateThreshold'). Other messages wait until the action returns, so it must send none itself. If it throws after the first piece, the connection is
-- closed with 'InternalFailure', because the message cannot be taken back.
--
-- [Cost]: a system call for each piece. Compressed, as 'sendText', and a compressor while the action runs.
-- [Blocks]: as 'sendText', and as the action does.
-- [Masking]: the action runs in the caller's masking state.
-- [Throws]: 'ConnectionEnded', and what the action throws; the function that sends a piece throws 'NotSent' after the action has
-- returned.
-- [Threads]: any.
sendTextPieces :: Connection -> ((Utf8 -> IO ()) -> IO a) -> IO a
sendTextPieces conn action = sendPieces conn OpText (\put -> action (put . toByteString))

-- | As 'sendTextPieces', with bytes.
--
-- [Cost]: as 'sendTextPieces'.
-- [Blocks]: as 'sendTextPieces'.
-- [Masking]: as 'sendTextPieces'.
-- [Throws]: as 'sendTextPieces'.
-- [Threads]: any.
sendBinaryPieces :: Connection -> ((ByteString -> IO ()) -> IO a) -> IO a
sendBinaryPieces conn = sendPieces conn OpBinary

sendPieces :: Connection -> Int -> ((ByteString -> IO ()) -> IO a) -> IO a
sendPieces conn opcode action = mask $ \restore -> do
  enter (connMessages conn)
  course <- newRef Unbegun
  let abandon = do
        before <- modifyRef course (Over,)
        case before of
          Unbegun -> pure ()
          -- Its compressor is left to the finalizer, as another thread may be in it.
          _ -> offer conn (closing InternalFailure mempty)
        leave (connMessages conn)
      put piece = unless (B.null piece) $ mask_ (putPiece conn opcode course piece)
  r <- (restore (action put) >>= \r -> r <$ endPieces conn opcode course) `onException` abandon
  r <$ leave (connMessages conn)

-- What has become of a message in pieces; read and written in the frame gate, except for its failure.
data Course
  = Unbegun
  | Plainly
  | Compressing !Deflating !Flate
  | -- | Ended or given up.
    Over

putPiece :: Connection -> Int -> Ref Course -> ByteString -> IO ()
putPiece conn opcode course piece =
  inFrame conn $
    readRef course >>= \case
      Unbegun -> case connDeflating conn of
        Just deflating | B.length piece >= deflatingThreshold deflating -> do
          flate <- borrowFlate (deflates deflating)
          -- Before the write, which can be interrupted half done.
          writeRef course (Compressing deflating flate)
          compressed flate (DeflateBit .|. opcode) piece
        _ -> writeRef course Plainly >> writeFrame conn opcode (B.length piece) [piece]
      Plainly -> writeFrame conn OpContinuation (B.length piece) [piece]
      Compressing _ flate -> compressed flate OpContinuation piece
      Over -> throwIO MessageOver
  where
    -- In steps that are short, with a point for interruptions between them.
    compressed flate first bytes = do
      let (now, later) = B.splitAt 16384 bytes
      parts <- deflatePiece flate now
      writeFrame conn first (sum (map B.length parts)) parts
      unless (B.null later) $ do
        allowInterrupt `onException` breakOff conn (Lost "interrupted while a piece was being sent")
        compressed flate OpContinuation later

endPieces :: Connection -> Int -> Ref Course -> IO ()
endPieces conn opcode course =
  inFrame conn $
    modifyRef course (Over,) >>= \case
      Unbegun -> writeFrame conn (FinalBit .|. opcode) 0 []
      Plainly -> writeFrame conn (FinalBit .|. OpContinuation) 0 []
      Compressing deflating flate -> do
        giveBackFlate (deflates deflating) flate
        writeFrame conn (FinalBit .|. OpContinuation) (B.length deflateEnd) [deflateEnd]
      Over -> throwIO MessageOver

deflates :: Deflating -> Kind
deflates deflating = Deflates (deflatingLevel deflating) (deflatingBits deflating)

-- | Send at once what is gathered. A frame that the receiver's thread sends while more input has arrived otherwise
-- leaves with the next 'Heddle.WebSocket.receive' at the latest.
--
-- [Cost]: one read if nothing is gathered.
-- [Blocks]: as 'sendText'.
-- [Throws]: 'ConnectionEnded'.
-- [Threads]: any.
flush :: Connection -> IO ()
flush conn = mask_ (flushGathered conn)

-- | 'flush'. The caller is masked.
flushGathered :: Connection -> IO ()
flushGathered conn = do
  fill <- get conn OutputFill
  when (fill > 0) $ inFrame conn (flushOutput conn)
{-# INLINE flushGathered #-}

-- | Send a ping with a payload of at most 125 bytes. Silent peers are pinged anyway ('optionPing').
--
-- [Cost]: as 'sendText'.
-- [Blocks]: as 'sendText'.
-- [Throws]: 'ConnectionEnded', 'NotSent'.
-- [Threads]: any.
sendPing :: Connection -> ByteString -> IO ()
sendPing conn payload
  | B.length payload > 125 = throwIO (ControlTooLong (B.length payload))
  | otherwise = mask_ (inFrame conn (writeFrame conn (FinalBit .|. OpPing) (B.length payload) [payload]))

-- | Send a Close with a code and a reason of at most 123 bytes, unless one was sent before. Sending ends with it;
-- receiving goes on until the peer's Close, for at most 'optionClose'.
--
-- [Cost]: as 'sendText'.
-- [Blocks]: until the frame that is being sent has left; then as 'sendText'.
-- [Throws]: 'NotSent'; nothing if the connection has ended already.
-- [Threads]: any.
close :: Connection -> CloseCode -> Utf8 -> IO ()
close conn code reason
  | not (validCode code) = throwIO (CodeNotAllowed code)
  | size > 123 = throwIO (ControlTooLong size)
  | otherwise =
    try (sendClose conn code reason) >>= \case
      Left (_ :: ConnectionEnded) -> pure ()
      Right () -> pure ()
  where
    size = B.length (toByteString reason)

-- | 'close' with any code.
sendClose :: Connection -> CloseCode -> Utf8 -> IO ()
sendClose conn code reason = mask_ $ do
  enter (connFrames conn)
  writeClose conn (closeBytes code reason) `onException` leaveFrames conn
  leaveFrames conn

-- Gates ------------------------------------------------------------------------

-- Both run masked.
inMessage :: Connection -> IO () -> IO ()
inMessage conn act = mask_ $ do
  enter (connMessages conn)
  act `onException` leave (connMessages conn)
  leave (connMessages conn)
{-# INLINE inMessage #-}

inFrame :: Connection -> IO () -> IO ()
inFrame conn act = do
  enter (connFrames conn)
  (usable conn >> act) `onException` leaveFrames conn
  leaveFrames conn
{-# INLINE inFrame #-}

usable :: Connection -> IO ()
usable conn = do
  sent <- get conn CloseSent
  broken <- readRef (connBroken conn)
  case broken of
    Just e -> throwIO e
    Nothing -> when (sent == 1) (throwIO Closed)
{-# INLINE usable #-}

-- | Leave the frame gate, after sending the control frames that others have left. One that is left after we have
-- looked is sent by its thread, which finds the gate free, or by us, because we look again after leaving.
leaveFrames :: Connection -> IO ()
leaveFrames conn = do
  leave (connFrames conn)
  Pending a b c <- readRef (connPending conn)
  case (a, b, c) of
    (Nothing, Nothing, Nothing) -> pure ()
    _ -> drain conn
{-# INLINE leaveFrames #-}

-- | Leave control frames to be sent: by this thread now, or by the one in the gate when it leaves. The caller is masked.
--
-- [Blocks]: never while another thread is in the gate; otherwise while the peer takes nothing.
offer :: Connection -> (Pending -> Pending) -> IO ()
offer conn change = modifyRef (connPending conn) (\p -> (change p, ())) >> drain conn

drain :: Connection -> IO ()
drain conn = do
  entered <- tryEnter (connFrames conn)
  when entered $ do
    Pending pong ping end <- modifyRef (connPending conn) (\p -> (noPending, p))
    ended <- try $ do
      gone <- (||) . (== 1) <$> get conn CloseSent <*> (maybe False (const True) <$> readRef (connBroken conn))
      unless gone $ do
        for_ pong $ \payload -> writeFrame conn (FinalBit .|. OpPong) (B.length payload) [payload]
        for_ ping $ \payload -> writeFrame conn (FinalBit .|. OpPing) (B.length payload) [payload]
        traverse_ (writeClose conn) end
    leaveFrames conn
    case ended of
      Right () -> pure ()
      Left (e :: SomeException) -> case fromException e of
        -- Every later call throws it.
        Just (_ :: ConnectionEnded) -> pure ()
        Nothing -> throwIO e

-- | A pong among the control frames that wait: an earlier one that has not left need not be sent any more (RFC 6455,
-- section 5.5.3).
pongNow :: ByteString -> Pending -> Pending
pongNow payload (Pending _ ping end) = Pending (Just payload) ping end

-- | A ping among the control frames that wait.
pingNow :: ByteString -> Pending -> Pending
pingNow payload (Pending pong _ end) = Pending pong (Just payload) end

-- | A Close among the control frames that wait; the first one stays.
closing :: CloseCode -> Utf8 -> Pending -> Pending
closing code reason (Pending pong ping end) = Pending pong ping (end <|> Just (closeBytes code reason))

-- In the frame gate. Nothing is sent after a Close.
writeClose :: Connection -> ByteString -> IO ()
writeClose conn payload = do
  sent <- get conn CloseSent
  broken <- readRef (connBroken conn)
  case broken of
    Just e -> throwIO e
    Nothing -> when (sent == 0) $ do
      Deadline ends <- deadlineIn (optionClose (connOptions conn))
      set conn CloseEnds ends
      atomicWrite (connWords conn) CloseSent 1
      -- A receiver that waits learns the new deadline.
      unpark (connectionOf (transportRegistration (connTransport conn)))
      writeFrame conn (FinalBit .|. OpClose) (B.length payload) [payload]
      flushOutput conn

-- Frames -----------------------------------------------------------------------

-- In the frame gate: write a frame with a payload of this many bytes in these pieces.
writeFrame :: Connection -> Int -> Int -> [ByteString] -> IO ()
writeFrame conn first size pieces = do
  buffer <- holdOutput conn
  fill <- get conn OutputFill
  if fill + headRoom + size <= bufferSize buffer
    then do
      withBuffer buffer $ \p -> do
        (at, key) <- begin (p `plusPtr` fill)
        copyAll (p `plusPtr` (fill + at)) key pieces
        set conn OutputFill (fill + at + size)
      gather <- mayGather conn
      unless gather (flushOutput conn)
    else do
      -- Now the buffer is this frame's.
      when (fill > 0) $ writeAll conn buffer fill
      set conn OutputFill 0
      at <- withBuffer buffer $ \p -> do
        (at, key) <- begin p
        fillUp conn buffer p at key pieces
      when (at > 0) $ writeAll conn buffer at
      releaseOutput conn buffer
  where
    begin p
      | connRole conn == Client = do
        key <- newMask conn
        (\at -> (at, key)) <$> pokeHead p first size (Just key)
      | otherwise = (\at -> (at, 0)) <$> pokeHead p first size Nothing
    copyAll _ _ [] = pure ()
    copyAll to key (piece : rest) = do
      let n = B.length piece
      B.unsafeUseAsCStringLen piece $ \(from, _) -> place to (castPtr from) n key
      copyAll (to `plusPtr` n) (rotateKey key n) rest

-- Write what follows the head through the buffer, which is filled up to there; returns how much of it remains to be
-- written. Long pieces that need no mask are not copied.
fillUp :: Connection -> Buffer -> Ptr Word8 -> Int -> Word32 -> [ByteString] -> IO Int
fillUp conn buffer p = go
  where
    room = bufferSize buffer
    go at _ [] = pure at
    go at key (piece : rest)
      | n == 0 = go at key rest
      | at == room = writeAll conn buffer at >> go 0 key (piece : rest)
      | at == 0 && key == 0 && n >= room && connRole conn == Server = do
        B.unsafeUseAsCStringLen piece $ \(from, _) -> writeFrom conn (castPtr from) n
        go 0 key rest
      | otherwise = do
        let some = min n (room - at)
        B.unsafeUseAsCStringLen piece $ \(from, _) -> place (p `plusPtr` at) (castPtr from) some key
        go (at + some) (rotateKey key some) (B.unsafeDrop some piece : rest)
      where
        n = B.length piece

-- A key of 0 changes nothing.
place :: Ptr Word8 -> Ptr Word8 -> Int -> Word32 -> IO ()
place to from n key
  | key == 0 = copyBytes to from n
  | otherwise = maskBytes to from n key
{-# INLINE place #-}

-- A secret key from the system, and a keyed hash of a counter: nobody can foresee a mask, which is what it is for (RFC
-- 6455, section 10.3).
newMask :: Connection -> IO Word32
newMask conn = do
  count <- get conn MaskCount
  set conn MaskCount (count + 1)
  pure (fromIntegral (hashWith (connKey conn) count))

-- The receiver's thread, with more input to read, will flush.
mayGather :: Connection -> IO Bool
mayGather conn = do
  gathering <- get conn Gathering
  if gathering == 0 then pure False else (==) <$> myThreadId <*> readRef (connReceiver conn)
{-# INLINE mayGather #-}

holdOutput :: Connection -> IO Buffer
holdOutput conn =
  readRef (connOutput conn) >>= \case
    Holds buffer -> pure buffer
    Nothing' -> do
      buffer <- borrowBuffer (transportRegistration (connTransport conn))
      buffer <$ writeRef (connOutput conn) (Holds buffer)
{-# INLINE holdOutput #-}

releaseOutput :: Connection -> Buffer -> IO ()
releaseOutput conn buffer = do
  writeRef (connOutput conn) Nothing'
  set conn OutputFill 0
  giveBackBuffer (transportRegistration (connTransport conn)) buffer
{-# INLINE releaseOutput #-}

flushOutput :: Connection -> IO ()
flushOutput conn =
  readRef (connOutput conn) >>= \case
    Nothing' -> pure ()
    Holds buffer -> do
      fill <- get conn OutputFill
      when (fill > 0) $ writeAll conn buffer fill
      releaseOutput conn buffer
{-# INLINE flushOutput #-}

writeAll :: Connection -> Buffer -> Int -> IO ()
writeAll conn buffer n = withBuffer buffer (\p -> writeFrom conn p n)
{-# INLINE writeAll #-}

-- Most sockets take it all; a peer that takes something gets more time.
writeFrom :: Connection -> Ptr Word8 -> Int -> IO ()
writeFrom conn p n = do
  r <- writeNow transport p n
  if r == n then pure () else slowly (max 0 r) `onException` breakOff conn (Lost "interrupted while a frame was being sent")
  where
    transport = connTransport conn
    slowly done
      | done == n = pure ()
      | otherwise = do
        deadline <- deadlineIn (optionSend (connOptions conn))
        r <- writeSomeUntil transport (p `plusPtr` done) (n - done) deadline
        if r < 0 then failed r else slowly (done + r)
    failed r = do
      let e
            | r == TimedOutCode = TimedOut "it took nothing of what was sent"
            | r == ClosedCode = Lost "the connection is closed"
            | otherwise = Lost (describeErrno (Errno (negate r)))
      breakOff conn e
      throwIO e

-- | Nothing can be sent any more, and a receiver that waits must not wait on: closes the connection. The first reason stays.
--
-- [Blocks]: never.
breakOff :: Connection -> ConnectionEnded -> IO ()
breakOff conn e = do
  modifyRef (connBroken conn) (\before -> (before <|> Just e, ()))
  void (closeRegistration (transportRegistration (connTransport conn)))
