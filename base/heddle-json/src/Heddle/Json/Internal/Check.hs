-- |
-- Module      : Heddle.Json.Internal.Check
-- Description : The automata that validate and reformat JSON
-- Stability   : internal; exempt from the version policy
--
-- Owns the C structs of @heddle_json_check.h@ and @heddle_json_format.h@, and feeds them slices of at most 32 KiB.
--
-- Invariant: after 'Wrong', an automaton keeps giving the same answer.
-- Cost: memory for the nesting: a bit for each level, up to the limit.
-- Owner: one thread at a time.
module Heddle.Json.Internal.Check
  ( -- * Checking
    Automaton,
    Shape (..),
    Event (..),
    newAutomaton,
    copyAutomaton,
    advance,
    atEnd,
    taken,

    -- * Layout
    Layout (..),
    Formatter,
    newFormatter,
    layOut,
    endLayout,

    -- * Lines and columns
    Position,
    newPosition,
    movePosition,
    lineColumn,
  )
where

import Data.Int (Int32, Int64)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes, fillBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import Heddle.Json.Internal.Foreign.Check
import Heddle.Json.Malformed
import Heddle.Json.Options (Limits (..))
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Buffer (Buffer, bufferSize, newBuffer, withBuffer)
import Heddle.Prim.Cpu (Level, levelCode)

-- | The shape of a text.
data Shape
  = -- | One value.
    OneValue
  | -- | Any number of values, one after the other. White space between them is needed only where two could not be told
    -- apart: between two that are numbers, @true@, @false@ or @null@.
    ManyValues
  | -- | As 'ManyValues'; 'Begins' and 'Ends' announce each value.
    Values
  | -- | One array; 'Begins' and 'Ends' announce each element.
    Elements
  deriving stock (Bounded, Enum, Eq, Show)

-- | The result of a piece of text.
data Event
  = -- | All of it was taken, and the text is valid so far.
    Taken
  | -- | After this many bytes of it, a value or element begins.
    Begins !Int
  | -- | After this many bytes of it, a value or element has ended.
    Ends !Int
  | -- | The text is invalid. The offset counts from its first byte; the path is empty.
    Wrong !Malformed
  deriving stock (Eq, Show)

-- | Checks a text piece by piece.
data Automaton = Automaton
  { automatonLevel :: !Level,
    automatonLimits :: !Limits,
    -- | Whether 'limitSize' holds for the whole text.
    automatonSized :: !Bool,
    -- | The C struct; it is replaced by a larger one when the nesting needs more room.
    automatonMemory :: !(Ref Buffer)
  }

-- Where the fields of struct heddle_json_check are.
offsetAt, numberLimitAt, depthLimitAt, capacityAt, manyAt, watchedAt, stateAt, reasonAt, nestingAt :: Int
offsetAt = 0
numberLimitAt = 16
depthLimitAt = 24
capacityAt = 28
manyAt = 32
watchedAt = 36
stateAt = 44
reasonAt = 48
nestingAt = 64

-- | An automaton before its first byte.
--
-- [Cost]: 192 bytes.
newAutomaton :: Level -> Limits -> Shape -> IO Automaton
newAutomaton level limits shape = do
  let size = nestingAt + 128
  memory <- newBuffer size
  withBuffer memory $ \p -> do
    fillBytes p 0 size
    pokeByteOff p numberLimitAt (fromIntegral (limitNumber limits) :: Int64)
    pokeByteOff p depthLimitAt (clamped (limitDepth limits))
    pokeByteOff p capacityAt (1024 :: Int32)
    pokeByteOff p manyAt (if shape `elem` [ManyValues, Values] then 1 else 0 :: Int32)
    pokeByteOff p watchedAt (case shape of Values -> 0; Elements -> 1; _ -> -1 :: Int32)
    -- VALUE or BETWEEN (heddle_json_check.c).
    pokeByteOff p stateAt (if shape `elem` [ManyValues, Values] then 1 else 0 :: Int32)
  Automaton level limits (shape == OneValue) <$> newRef memory
  where
    clamped n = fromIntegral (max 0 (min 0x7ffffff0 n)) :: Int32

-- | A copy, which then changes independently.
--
-- [Cost]: a copy of the state.
copyAutomaton :: Automaton -> IO Automaton
copyAutomaton automaton = do
  old <- readRef (automatonMemory automaton)
  memory <- enlarged old (bufferSize old)
  memory' <- newRef memory
  pure automaton {automatonMemory = memory'}

enlarged :: Buffer -> Int -> IO Buffer
enlarged old size = do
  new <- newBuffer size
  withBuffer old $ \from -> withBuffer new $ \to -> copyBytes to from (bufferSize old)
  pure new

-- | How many bytes it has taken.
taken :: Automaton -> IO Int
taken automaton = do
  memory <- readRef (automatonMemory automaton)
  fromIntegral <$> withBuffer memory (\p -> peekByteOff p offsetAt :: IO Int64)

-- | Feed it a piece. After 'Begins' and 'Ends', continue with the rest of the piece, after that many bytes.
--
-- [Cost]: 0.3 to 1 ns for each byte.
-- [Blocks]: never; other threads of the capability get their turn every 32 KiB.
advance :: Automaton -> Ptr Word8 -> Int -> IO Event
advance automaton text len
  | automatonSized automaton = do
    before <- taken automaton
    let room = limitSize (automatonLimits automaton) - before
    if len <= room
      then slices automaton text 0 len
      else
        slices automaton text 0 (max 0 room) >>= \case
          Taken -> pure (Wrong (Malformed (limitSize (automatonLimits automaton)) [] (TooLarge (limitSize (automatonLimits automaton)))))
          other -> pure other
  | otherwise = slices automaton text 0 len

slices :: Automaton -> Ptr Word8 -> Int -> Int -> IO Event
slices automaton text from end
  | from >= end = pure Taken
  | otherwise = do
    memory <- readRef (automatonMemory automaton)
    let piece = min largestPiece (end - from)
        code = levelCode (automatonLevel automaton)
    (answer, passed) <- withBuffer memory $ \p -> do
      before <- peekByteOff p offsetAt :: IO Int64
      answer <- heddleJsonCheck code p (text `plusPtr` from) piece
      after <- peekByteOff p offsetAt
      pure (answer, fromIntegral (after - before))
    case answer of
      0 -> slices automaton text (from + piece) end
      2 -> pure (Begins (from + passed))
      3 -> pure (Ends (from + passed))
      4 -> do
        writeRef (automatonMemory automaton) =<< deeper memory (limitDepth (automatonLimits automaton))
        slices automaton text (from + passed) end
      _ -> Wrong <$> wrong automaton (Just (text `plusPtr` (from + passed)))

-- A copy with bits for twice as many levels, up to the limit.
deeper :: Buffer -> Int -> IO Buffer
deeper old limit = do
  let levels = min (2 * 8 * (bufferSize old - nestingAt)) ((limit + 63) `quot` 64 * 64)
  new <- enlarged old (nestingAt + levels `quot` 8)
  withBuffer new $ \p -> pokeByteOff p capacityAt (fromIntegral levels :: Int32)
  pure new

-- | End the text: 'Taken' if it may end here, @'Ends' 0@ if that also ends an announced number.
atEnd :: Automaton -> IO Event
atEnd automaton = do
  memory <- readRef (automatonMemory automaton)
  withBuffer memory heddleJsonCheckEnd >>= \case
    0 -> pure Taken
    3 -> pure (Ends 0)
    _ -> Wrong <$> wrong automaton Nothing

wrong :: Automaton -> Maybe (Ptr Word8) -> IO Malformed
wrong automaton place = do
  memory <- readRef (automatonMemory automaton)
  (offset, reason) <- withBuffer memory $ \p -> (,) <$> (peekByteOff p offsetAt :: IO Int64) <*> (peekByteOff p reasonAt :: IO Int32)
  -- Only reason 15 names the kind of the value, whose first byte is in this piece then.
  found <- if reason == 15 then maybe (pure 0) (`peekByteOff` 0) place else pure 0
  pure (Malformed (fromIntegral offset) [] (reasonOf (automatonLimits automaton) found reason))

-- In the order of enum heddle_json_reason.
reasonOf :: Limits -> Word8 -> Int32 -> Reason
reasonOf limits found = \case
  1 -> Truncated
  2 -> Expected "a value"
  3 -> Expected "a value or ']'"
  4 -> Expected "a key or '}'"
  5 -> Expected "a key"
  6 -> Expected "':'"
  7 -> Expected "',' or ']'"
  8 -> Expected "',' or '}'"
  9 -> Expected "a digit"
  10 -> Expected "no digit after a leading zero"
  11 -> Expected "true"
  12 -> Expected "false"
  13 -> Expected "null"
  14 -> Expected "white space between values"
  15 -> WrongKind "an array" (kind found)
  16 -> TrailingBytes
  17 -> ControlCharacter
  18 -> BadEscape
  19 -> LoneSurrogate
  20 -> InvalidUtf8
  21 -> ByteOrderMark
  22 -> NumberTooLong (limitNumber limits)
  _ -> TooDeep (limitDepth limits)
  where
    kind byte = case byte of
      0x22 -> "a string"
      0x7b -> "an object"
      0x74 -> "true"
      0x66 -> "false"
      0x6e -> "null"
      _ -> "a number"

-- | How a text is laid out.
data Layout
  = -- | Without white space; never longer than the text was.
    Minified
  | -- | As 'Minified', with a newline after each value.
    Lines
  | -- | A line for each element, indented by this many blanks for each level, and a newline after each value.
    Indented !Int
  deriving stock (Eq, Show)

-- | Reformats a text piece by piece.
data Formatter = Formatter !Level !Buffer

-- | A formatter before its first byte.
--
-- [Cost]: 48 bytes.
newFormatter :: Level -> Layout -> IO Formatter
newFormatter level layout = do
  memory <- newBuffer 48
  withBuffer memory $ \p -> do
    fillBytes p 0 48
    pokeByteOff p 28 (case layout of Minified -> 0; Lines -> 1; Indented _ -> 2 :: Int32)
    pokeByteOff p 32 (case layout of Indented n -> fromIntegral (max 0 (min 1024 n)); _ -> 0 :: Int32)
  pure (Formatter level memory)

-- | Reformat a piece of text that was found valid so far. Returns how many bytes were taken and how many written; it
-- takes fewer than all only when the output is full.
--
-- [Cost]: minifying 0.1 to 0.5 ns for each byte, the others 0.5 to 2 ns.
layOut :: Formatter -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> IO (Int, Int)
layOut (Formatter level memory) text len out room = withBuffer memory $ \p ->
  let go !took !wrote = do
        let piece = min largestPiece (len - took)
            most = min largestPiece (room - wrote)
        n <- heddleJsonFormat (levelCode level) p (text `plusPtr` took) piece (out `plusPtr` wrote) most
        m <- fromIntegral <$> (peekByteOff p 0 :: IO Int64)
        if (took + n < len || m == most) && wrote + m < room
          then go (took + n) (wrote + m)
          else pure (took + n, wrote + m)
   in go 0 0

-- | End the text. A last 'layOut' of no bytes writes what is left.
endLayout :: Formatter -> IO ()
endLayout (Formatter _ memory) = withBuffer memory heddleJsonFormatEnd

-- | A position in a text that is read piece by piece: the lines, and the characters of the last line, before it.
data Position = Position !Level !Buffer

-- | The position of the first byte.
newPosition :: Level -> IO Position
newPosition level = do
  memory <- newBuffer 16
  withBuffer memory (\p -> fillBytes p 0 16)
  pure (Position level memory)

-- | Move it to the end of these bytes.
--
-- [Cost]: 64 bytes in some 3 ns.
movePosition :: Position -> Ptr Word8 -> Int -> IO ()
movePosition (Position level memory) text len = withBuffer memory (go 0)
  where
    go from p
      | from >= len = pure ()
      | otherwise = do
        heddleJsonPlace (levelCode level) (castPtr p) (text `plusPtr` from) (min largestPiece (len - from))
        go (from + largestPiece) p

-- | Line and column of the next byte, both counted from 1.
--
-- [Units]: the column in characters.
lineColumn :: Position -> IO (Int, Int)
lineColumn (Position _ memory) = withBuffer memory $ \p -> do
  newlines <- peekByteOff p 0 :: IO Int64
  characters <- peekByteOff p 8 :: IO Int64
  pure (1 + fromIntegral newlines, 1 + fromIntegral characters)
