-- |
-- Module      : Heddle.WebSocket.Receive
-- Description : Frames on their way in
-- Stability   : hidden; "Heddle.WebSocket" exports what is public
--
-- The receiver reads into a borrowed buffer, and writes payloads from there into the message, unmasked in the same pass
-- or decompressed. All that it knows is in the connection, so an interrupted receive loses nothing. It parks without a
-- buffer.
--
-- Invariant: each byte is judged when it arrives: what is wrong ends the connection before the frame is complete.
-- Invariant: a message's buffer is at most twice as long as what has arrived of it, or 64 KiB.
-- Cost: a message is a receive and a copy of its payload.
-- Owner: one thread at a time.
module Heddle.WebSocket.Receive
  ( Message (..),
    receive,
    receiveUntil,
    Kind (..),
    Piece (..),
    receivePiece,
    receivePieceUntil,

    -- * For the end of a session
    discardUntil,
    releaseReceiver,
  )
where

import Control.Monad (unless, when)
import Data.Bits (testBit)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Internal qualified as B (fromForeignPtr)
import Data.ByteString.Unsafe qualified as B (unsafeUseAsCStringLen)
import Data.Maybe (isJust)
import Data.Word (Word32, Word8)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Bytes.Utf8 (Utf8)
import Heddle.Bytes.Utf8 qualified as Utf8
import Heddle.Bytes.Utf8.Unsafe (unsafeUtf8)
import Heddle.Prim.Atomic (readRef, writeRef)
import Heddle.Prim.Buffer
import Heddle.Prim.Clock (Deadline, never)
import Heddle.Prim.Exception (bug, catch, mask_, onException, throwIO)
import Heddle.Prim.Thread (myThreadId)
import Heddle.WebSocket.Connection
import Heddle.WebSocket.Deflate (Inflated (..), inflateInto, inflateTail)
import Heddle.WebSocket.Exception
import Heddle.WebSocket.Flate qualified as Flate
import Heddle.WebSocket.Frame
import Heddle.WebSocket.Gate
import Heddle.WebSocket.Input
import Heddle.WebSocket.Mask
import Heddle.WebSocket.Options
import Heddle.WebSocket.Send

-- | A whole message.
data Message
  = TextMessage !Utf8
  | BinaryMessage !ByteString
  deriving stock (Eq, Show)

-- | What a message consists of.
data Kind = IsText | IsBinary
  deriving stock (Eq, Ord, Show)

-- | A part of a message.
data Piece = Piece
  { pieceKind :: !Kind,
    -- | Of a text, valid so far; the bytes of a character may be in two pieces.
    pieceBytes :: !ByteString,
    -- | The message ends with it.
    pieceLast :: !Bool
  }
  deriving stock (Eq, Show)

-- | The next message. Pings are answered, and silent peers pinged, while it waits.
--
-- [Cost]: one system call when nothing has arrived yet; a copy.
-- [Blocks]: parks until a message is there, without a buffer.
-- [Masking]: interruptible while parked; what has arrived of a message is kept for the next call.
-- [Throws]: 'ConnectionEnded': 'PeerClosed' at the peer's Close, which has been answered.
-- [Threads]: one receiver at a time.
receive :: Connection -> IO Message
receive conn =
  mask_ $
    pull conn Whole never >>= \case
      Late -> bug "receive: late at the deadline never"
      Pulled kind _ bytes -> pure (if kind == OpText then TextMessage (unsafeUtf8 bytes) else BinaryMessage bytes)

-- | 'receive' with a deadline: 'Nothing' when it has passed.
--
-- [Cost]: as 'receive'.
-- [Blocks]: as 'receive'.
-- [Masking]: as 'receive'.
-- [Throws]: as 'receive'.
-- [Threads]: as 'receive'.
receiveUntil :: Connection -> Deadline -> IO (Maybe Message)
receiveUntil conn deadline =
  mask_ $
    pull conn Whole deadline >>= \case
      Late -> pure Nothing
      Pulled kind _ bytes -> pure (Just (if kind == OpText then TextMessage (unsafeUtf8 bytes) else BinaryMessage bytes))

-- | The next part of a message, as soon as it has arrived: at most 32 KiB, except that the first may be all that a
-- 'receive' had of it when it was interrupted. There is no limit on the message's length.
--
-- [Cost]: as 'receive'.
-- [Blocks]: as 'receive'.
-- [Masking]: as 'receive'.
-- [Throws]: as 'receive'.
-- [Threads]: as 'receive'.
receivePiece :: Connection -> IO Piece
receivePiece conn = receivePieceUntil conn never >>= maybe (bug "receivePiece: late at the deadline never") pure

-- | 'receivePiece' with a deadline: 'Nothing' when it has passed.
--
-- [Cost]: as 'receive'.
-- [Blocks]: as 'receive'.
-- [Masking]: as 'receive'.
-- [Throws]: as 'receive'.
-- [Threads]: as 'receive'.
receivePieceUntil :: Connection -> Deadline -> IO (Maybe Piece)
receivePieceUntil conn deadline =
  mask_ $
    pull conn InPieces deadline >>= \case
      Late -> pure Nothing
      Pulled kind final bytes -> pure (Just (Piece (if kind == OpText then IsText else IsBinary) bytes final))

-- | Read and drop until the connection ends or the deadline passes; never throws 'ConnectionEnded'. The caller is masked.
--
-- [Blocks]: parks.
discardUntil :: Connection -> Deadline -> IO ()
discardUntil conn deadline = do
  enter (connReceives conn)
  set conn InflateFull 0
  go `onException` leave (connReceives conn)
  leave (connReceives conn)
  where
    go = do
      end <- readRef (connEnd conn)
      case end of
        Just _ -> pure ()
        Nothing ->
          advance conn Dropping deadline >>= \case
            Stuck -> pure ()
            Late' -> pure ()
            Ready {} -> go

-- How messages are wanted.
data Want = Whole | InPieces | Dropping
  deriving stock (Eq)

data Pulled = Pulled !Int !Bool !ByteString | Late

pull :: Connection -> Want -> Deadline -> IO Pulled
pull conn want deadline = do
  enter (connReceives conn)
  pulled <- go `onException` leave (connReceives conn)
  pulled <$ leave (connReceives conn)
  where
    go =
      readRef (connEnd conn) >>= \case
        Just e -> throwIO e
        Nothing ->
          advance conn want deadline >>= \case
            Ready kind final bytes -> Pulled kind final bytes <$ rest conn
            Late' -> pure Late
            Stuck -> readRef (connEnd conn) >>= maybe (bug "a connection ended without a cause") throwIO

-- Before returning to the caller: the buffer goes back unless there is input in it. If there is, frames may be gathered
-- by this thread until the next call, which flushes.
rest :: Connection -> IO ()
rest conn = do
  start <- get conn InputStart
  end <- get conn InputEnd
  if start == end
    then giveBackInput conn >> set conn Gathering 0
    else gatherHere conn
  pong <- get conn PongGathered
  -- The program may take its time before it receives again.
  when (pong == 1) $ do
    set conn PongGathered 0
    -- If it fails, the message is still the program's; the next call fails.
    flushGathered conn `catch` \(_ :: ConnectionEnded) -> pure ()
{-# INLINE rest #-}

gatherHere :: Connection -> IO ()
gatherHere conn = do
  me <- myThreadId
  writeRef (connReceiver conn) me
  set conn Gathering 1

-- What a step came to.
data Advance
  = -- | Opcode, whether the message is complete, bytes.
    Ready !Int !Bool !ByteString
  | -- | The deadline passed.
    Late'
  | -- | The connection ended; 'connEnd' says why.
    Stuck

-- Frames -----------------------------------------------------------------------

advance :: Connection -> Want -> Deadline -> IO Advance
advance conn want deadline = do
  fill <- get conn MessageFill
  inFrame <- get conn InFrame
  case () of
    _
      -- What has been read, now or by a receive of a whole message that was interrupted: in pieces, nothing is added to it.
      | want == InPieces && fill > 0 -> do
        kind <- get conn MessageKind
        Ready kind False <$> takeMessage conn
      | inFrame == 1 -> payload conn want deadline
      | otherwise -> nextHead conn want deadline

-- The head of a frame.
nextHead :: Connection -> Want -> Deadline -> IO Advance
nextHead conn want deadline = do
  start <- get conn InputStart
  end <- get conn InputEnd
  if start == end
    then more conn want deadline
    else
      readRef (connInput conn) >>= \case
        Nothing' -> bug "input without a buffer"
        Holds buffer -> do
          open <- get conn MessageKind
          let expecting =
                Expecting
                  { expectMask = connRole conn == Server,
                    expectDeflate = isJust (connDeflating conn),
                    expectMore = open /= 0
                  }
          -- The loop goes on outside of 'withBuffer', or its frames would pile up.
          head' <- withBuffer buffer $ \p -> readHead expecting (p `plusPtr` start) (end - start)
          case head' of
            HeadCutOff -> more conn want deadline
            HeadInvalid violation -> violated conn violation
            FrameHead first headBytes size key
              | opcodeOf first < OpClose -> beginFrame conn want deadline first size key (start + headBytes)
              | end - start < headBytes + size -> more conn want deadline
              | otherwise -> do
                control <- withBuffer buffer $ \p -> do
                  let from = p `plusPtr` (start + headBytes)
                  unmask from size key
                  B.packCStringLen (castPtr from, size)
                set conn InputStart (start + headBytes + size)
                controlled conn want deadline (opcodeOf first) control

-- A data frame, whose payload begins here.
beginFrame :: Connection -> Want -> Deadline -> Int -> Int -> Word32 -> Int -> IO Advance
beginFrame conn want deadline first size key start = do
  before <- get conn MessageSize
  -- Compression may make a message slightly longer.
  let allowance = if isJust (connDeflating conn) then limitOf conn `quot` 64 + 64 else 0
  if want == Whole && size - allowance > limitOf conn - before
    then tooLarge conn
    else do
      when (opcodeOf first /= OpContinuation) $ do
        set conn MessageKind (opcodeOf first)
        set conn MessageDeflated (if testBit first 6 then 1 else 0)
      -- Only the limit on whole messages needs it, and in pieces there is no limit to the sum.
      set conn MessageSize (if want == Whole then before + size else 0)
      set conn FrameFirst first
      set conn FrameLeft size
      set conn FrameKey (fromIntegral key)
      set conn InFrame 1
      set conn InputStart start
      payload conn want deadline

-- So low that sums with it do not overflow.
limitOf :: Connection -> Int
limitOf conn = min (maxBound `quot` 4) (max 0 (optionMessageLimit (connOptions conn)))

unmask :: Ptr Word8 -> Int -> Word32 -> IO ()
unmask p n key = unless (key == 0 || n == 0) (maskBytes p p n key)
{-# INLINE unmask #-}

controlled :: Connection -> Want -> Deadline -> Int -> ByteString -> IO Advance
controlled conn want deadline opcode control
  | opcode == OpPing = do
    -- The answers to a burst of pings leave together: 'more' and 'rest' flush.
    gatherHere conn
    set conn PongGathered 1
    offer conn (pongNow control)
    advance conn want deadline
  | opcode == OpPong = advance conn want deadline
  | otherwise = case closePayload control of
    Left violation -> violated conn violation
    Right (code, reason) -> do
      set conn PeerEnded 1
      -- The answer has the same code (RFC 6455, section 5.5.1).
      offer conn (closing code mempty)
      ended conn (PeerClosed code reason)

-- The payload of a data frame.
payload :: Connection -> Want -> Deadline -> IO Advance
payload conn want deadline = do
  left <- get conn FrameLeft
  start <- get conn InputStart
  end <- get conn InputEnd
  deflated <- get conn MessageDeflated
  full <- get conn InflateFull
  let n = min left (end - start)
  if n == 0 && left > 0 && full == 0
    then more conn want deadline
    else
      readRef (connInput conn) >>= \case
        -- A frame without a payload, or the rest of what zlib has to write.
        Nothing' -> absorb conn want deflated B.empty left >>= absorbed left
        Holds buffer -> do
          key <- get conn FrameKey
          r <- withBuffer buffer $ \p -> do
            let from = p `plusPtr` start
            if want == Dropping
              then pure (Absorbed n)
              else
                if deflated == 0
                  then plain conn want from n left (fromIntegral key)
                  else do
                    unmask from n (fromIntegral key)
                    r <- inflating conn want from n
                    -- What zlib has not read is masked again, for the next step.
                    case r of
                      Absorbed used | used < n -> do
                        let unread = from `plusPtr` used
                        unmask unread (n - used) (rotateKey (fromIntegral key) used)
                      _ -> pure ()
                    pure r
          absorbed left r
  where
    absorbed left = \case
      Wrong violation -> violated conn violation
      Excess -> tooLarge conn
      Absorbed used -> do
        start <- get conn InputStart
        key <- get conn FrameKey
        set conn InputStart (start + used)
        set conn FrameLeft (left - used)
        set conn FrameKey (fromIntegral (rotateKey (fromIntegral key) used))
        full <- get conn InflateFull
        first <- get conn FrameFirst
        if left == used && full == 0
          then
            if testBit first 7
              then complete conn want deadline
              else set conn InFrame 0 >> advance conn want deadline
          else advance conn want deadline

data Absorbed
  = -- | Bytes of the input that were used.
    Absorbed !Int
  | Wrong !Violation
  | Excess

-- Without input.
absorb :: Connection -> Want -> Int -> ByteString -> Int -> IO Absorbed
absorb conn want deflated input left
  | deflated == 0 || want == Dropping = pure (Absorbed 0)
  | otherwise = B.unsafeUseAsCStringLen input $ \(p, n) -> inflating conn want (castPtr p) (min n left)

-- Payload that is not compressed.
plain :: Connection -> Want -> Ptr Word8 -> Int -> Int -> Word32 -> IO Absorbed
plain conn want from n left key
  | n == 0 = pure (Absorbed 0)
  | otherwise = do
    fill <- get conn MessageFill
    first <- get conn FrameFirst
    -- 'beginFrame' does not judge a frame that begins in pieces, and is generous where messages may be compressed.
    if want == Whole && left > limitOf conn - fill
      then pure Excess
      else do
        buffer <- roomFor conn n (if want == InPieces then n else if testBit first 7 then left else maxBound)
        withBuffer buffer $ \to ->
          if key == 0 then copyBytes (to `plusPtr` fill) from n else maskBytes (to `plusPtr` fill) from n key
        added conn buffer n (Absorbed n)

-- Compressed payload, unmasked. In pieces, at most 32 KiB are made at once.
inflating :: Connection -> Want -> Ptr Word8 -> Int -> IO Absorbed
inflating conn want from n = do
  flate <-
    readRef (connInflating conn) >>= \case
      Just flate -> pure flate
      Nothing -> do
        flate <- Flate.borrowFlate Flate.Inflates
        flate <$ writeRef (connInflating conn) (Just flate)
  go flate 0
  where
    limit = limitOf conn
    go flate used = do
      fill <- get conn MessageFill
      buffer <- roomFor conn (min 32768 (max 512 (4 * (n - used)))) maxBound
      -- Not negative, whatever was wanted before: C would take it for a length.
      let room = max 0 (min (bufferSize buffer) (if want == Whole then limit + 1 else 32768) - fill)
      r <- withBuffer buffer $ \to -> inflateInto flate (from `plusPtr` used) (n - used) (to `plusPtr` fill) room
      case r of
        NotDeflate -> pure (Wrong InvalidDeflate)
        AllRead made -> set conn InflateFull 0 >> grown buffer made (Absorbed n)
        RoomFilled more'
          | want == Whole && fill + room > limit -> pure Excess
          | want == InPieces -> set conn InflateFull 1 >> grown buffer room (Absorbed (used + more'))
          | otherwise ->
            grown buffer room (Absorbed 0) >>= \case
              Absorbed _ -> go flate (used + more')
              wrong -> pure wrong
    grown = added conn

-- Bytes were written to the message: judge them.
added :: Connection -> Buffer -> Int -> Absorbed -> IO Absorbed
added conn buffer n result = do
  fill <- get conn MessageFill
  set conn MessageFill (fill + n)
  kind <- get conn MessageKind
  if kind /= OpText || n == 0
    then pure result
    else do
      state <- readRef (connText conn)
      case Utf8.feed state (B.fromForeignPtr (bufferForeign buffer fill) 0 n) of
        (_, Utf8.Bad _) -> pure (Wrong InvalidText)
        (next, _) -> result <$ writeRef (connText conn) next

-- The message's buffer, with room for this many bytes more; no more than the other number will follow, as far as is known.
roomFor :: Connection -> Int -> Int -> IO Buffer
roomFor conn n most = do
  fill <- get conn MessageFill
  held <- readRef (connMessage conn)
  case held of
    Holds buffer | fill + n <= bufferSize buffer -> pure buffer
    Holds buffer -> do
      larger <- newBuffer (max (fill + n) (min (2 * bufferSize buffer) (if most > limitOf conn then maxBound else fill + most)))
      withBuffer larger $ \to -> withBuffer buffer $ \from -> copyBytes to from fill
      larger <$ writeRef (connMessage conn) (Holds larger)
    Nothing' -> do
      buffer <- newBuffer (if most == n then n else max n (min most (if most == maxBound then 2 * n else 65536)))
      buffer <$ writeRef (connMessage conn) (Holds buffer)

-- The last frame was read.
complete :: Connection -> Want -> Deadline -> IO Advance
complete conn want deadline = do
  deflated <- get conn MessageDeflated
  kind <- get conn MessageKind
  if deflated == 0 || want == Dropping
    then finished kind
    else do
      fill <- get conn MessageFill
      if want == InPieces && fill >= 32768
        then Ready kind False <$> takeMessage conn
        else do
          tailed <- get conn InTail
          flate <- readRef (connInflating conn)
          whole <- maybe (pure False) Flate.inflateWhole flate
          if whole
            then finished kind
            else
              if tailed == 4
                then violated conn InvalidDeflate
                else do
                  r <- B.unsafeUseAsCStringLen (B.drop tailed inflateTail) $ \(p, n) -> inflating conn want (castPtr p) n
                  case r of
                    Wrong violation -> violated conn violation
                    Excess -> tooLarge conn
                    Absorbed used -> set conn InTail (tailed + used) >> complete conn want deadline
  where
    finished kind = do
      state <- readRef (connText conn)
      if kind == OpText && want /= Dropping && cutOff state
        then violated conn InvalidText
        else do
          bytes <- takeMessage conn
          messageOver conn
          pure (Ready kind True bytes)
    cutOff state = case Utf8.finish state of
      Utf8.Bad _ -> True
      _ -> False

-- The bytes so far, which become the caller's.
takeMessage :: Connection -> IO ByteString
takeMessage conn = do
  fill <- get conn MessageFill
  set conn MessageFill 0
  -- The limit is one on what is received at once.
  set conn MessageSize 0
  readRef (connMessage conn) >>= \case
    Nothing' -> pure B.empty
    Holds buffer -> do
      writeRef (connMessage conn) Nothing'
      let bytes = B.fromForeignPtr (bufferForeign buffer 0) 0 fill
      -- A short string must not keep a long buffer.
      pure (if bufferSize buffer - fill > fill `quot` 4 then B.copy bytes else bytes)

messageOver :: Connection -> IO ()
messageOver conn = do
  set conn InFrame 0
  kind <- get conn MessageKind
  when (kind == OpText) $ writeRef (connText conn) Utf8.start
  set conn MessageKind 0
  set conn MessageSize 0
  deflated <- get conn MessageDeflated
  when (deflated == 1) $ do
    set conn MessageDeflated 0
    set conn InTail 0
    set conn InflateFull 0
    giveBackInflating conn

giveBackInflating :: Connection -> IO ()
giveBackInflating conn =
  readRef (connInflating conn) >>= \case
    Nothing -> pure ()
    Just flate -> writeRef (connInflating conn) Nothing >> Flate.giveBackFlate Flate.Inflates flate

-- | Give back all that the receiver has borrowed. Nothing can be received afterwards.
--
-- [Blocks]: never.
releaseReceiver :: Connection -> IO ()
releaseReceiver conn = do
  giveBackInflating conn
  giveBackInput conn

-- Ends -------------------------------------------------------------------------

ended :: Connection -> ConnectionEnded -> IO Advance
ended conn e = Stuck <$ writeRef (connEnd conn) (Just e)

violated :: Connection -> Violation -> IO Advance
violated conn violation = do
  offer conn (closing code mempty)
  ended conn (Violated violation)
  where
    code = if violation == InvalidText || violation == InvalidDeflate then InvalidPayload else ProtocolFailure

tooLarge :: Connection -> IO Advance
tooLarge conn = do
  offer conn (closing TooBig mempty)
  ended conn (TooLarge (limitOf conn))

-- More input is needed.
more :: Connection -> Want -> Deadline -> IO Advance
more conn want deadline =
  fetch conn deadline >>= \case
    Fetched -> advance conn want deadline
    FetchLate -> pure Late'
    FetchEnded -> pure Stuck
