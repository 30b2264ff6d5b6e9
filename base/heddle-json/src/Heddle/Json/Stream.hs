-- |
-- Module      : Heddle.Json.Stream
-- Description : Decodes values one by one from text in pieces
-- Stability   : stable
--
-- For input larger than memory: each value (JSON Lines, or values one after the other), or each element of one array,
-- is decoded as soon as its last byte has arrived. The whole text is validated ("Heddle.Json.Check"), also between
-- elements.
--
-- Law (@streamAnyChunking@): however a text is cut into pieces, the results and the error are the same.
--
-- Cost: that of the check and of the decoder; memory for the largest element and one piece.
-- Owner: a 'Stream' is a value.
module Heddle.Json.Stream
  ( Stream,
    values,
    elements,
    feed,
    finish,

    -- * Loops
    forEach,

    -- * Lines, some of which may be invalid
    Line (..),
    Lines,
    jsonLines,
    feedLines,
    finishLines,
    forEachLine,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe qualified as ByteString (unsafeUseAsCStringLen)
import Foreign.Ptr (castPtr, plusPtr)
import Heddle.Json.Check (check)
import Heddle.Json.Internal.Check hiding (Lines)
import Heddle.Json.Malformed
import Heddle.Json.Options (Limits (..))
import Heddle.Prim.Cpu (level)
import Heddle.Prim.Unsafe (unsafePure)

-- | The state of decoding after the pieces so far.
data Stream a = Stream
  { streamDecode :: !(ByteString -> Either Malformed a),
    streamLimits :: !Limits,
    -- | Whether errors name the element.
    streamArray :: !Bool,
    streamAutomaton :: !Automaton,
    -- | How many have been decoded.
    streamCount :: !Int,
    streamBegun :: !(Maybe Begun)
  }

-- | A value that has begun: its offset, its length so far, and its pieces, the last one first.
data Begun = Begun !Int !Int [ByteString]

-- | Any number of values. The function decodes each one; usually it is @decode limits decoder@
-- ("Heddle.Json.Decode"). White space between values is needed only after numbers and literals. 'limitSize' holds for
-- each value. To continue after a value that does not decode, return the error as a result: @Right . decode@.
--
-- >>> fst (feed (values defaultLimits Right) "{\"a\": 1}\n[2")
-- ["{\"a\": 1}"]
--
-- Law (@streamFindsValues@): the decoded values are those that a plain parser finds.
--
-- [Cost]: 192 bytes.
values :: Limits -> (ByteString -> Either Malformed a) -> Stream a
values = stream Values

-- | The elements of one array.
--
-- >>> fst (feed (elements defaultLimits Right) "[1, {\"b\": [2]}, 3")
-- ["1","{\"b\": [2]}"]
--
-- [Cost]: 192 bytes.
elements :: Limits -> (ByteString -> Either Malformed a) -> Stream a
elements = stream Elements

stream :: Shape -> Limits -> (ByteString -> Either Malformed a) -> Stream a
stream shape limits decode = unsafePure $ do
  automaton <- newAutomaton level limits shape
  pure (Stream decode limits (shape == Elements) automaton 0 Nothing)

-- | Feed one more piece: the values that end in it, and the next state.
--
-- [Cost]: the check's and the decoder's. A value that lies within the piece is not copied.
feed :: Stream a -> ByteString -> ([a], Either Malformed (Stream a))
feed before text = unsafePure $ do
  automaton <- copyAutomaton (streamAutomaton before)
  base <- taken automaton
  ByteString.unsafeUseAsCStringLen text $ \(start, len) ->
    let go !s !from results =
          advance automaton (castPtr start `plusPtr` from) (len - from) >>= \case
            Taken -> pure (reverse results, hold (ByteString.drop from text) (len - from) s)
            Begins n -> go s {streamBegun = Just (Begun (base + from + n) 0 [])} (from + n) results
            Ends n -> case hold (slice from n) n s >>= one of
              Left e -> pure (reverse results, Left e)
              Right (a, s') -> go s' (from + n) (a : results)
            Wrong e -> pure (reverse results, Left (named s e))
        slice from n = ByteString.take n (ByteString.drop from text)
     in go before {streamAutomaton = automaton} 0 []

-- Keep a piece of the value that has begun, if there is one.
hold :: ByteString -> Int -> Stream a -> Either Malformed (Stream a)
hold piece len s = case streamBegun s of
  Just (Begun offset size pieces)
    | size + len > most -> Left (named s (Malformed (offset + most) [] (TooLarge most)))
    | len > 0 -> Right s {streamBegun = Just (Begun offset (size + len) (piece : pieces))}
  _ -> Right s
  where
    most = limitSize (streamLimits s)

-- Decode the value that has ended.
one :: Stream a -> Either Malformed (a, Stream a)
one s = case streamBegun s of
  Just (Begun offset _ pieces) -> case streamDecode s (whole pieces) of
    Right a -> Right (a, s {streamBegun = Nothing, streamCount = streamCount s + 1})
    Left e -> Left (named s e {malformedOffset = offset + malformedOffset e})
  Nothing -> Left (Malformed 0 [] (Refused "a value ended that had not begun"))
  where
    whole [piece] = piece
    whole pieces = ByteString.concat (reverse pieces)

-- Add the element's number to the path of an error in it.
named :: Stream a -> Malformed -> Malformed
named s e
  | streamArray s, Just _ <- streamBegun s = e {malformedPath = InElement (streamCount s) : malformedPath e}
  | otherwise = e

-- | End the text: a last value, if it is a number (which could have continued), or the error.
--
-- [Cost]: the decoder's.
finish :: Stream a -> ([a], Either Malformed ())
finish before = unsafePure $ do
  automaton <- copyAutomaton (streamAutomaton before)
  atEnd automaton >>= \case
    Wrong e -> pure ([], Left (named before e))
    Ends _ -> pure $ case one before of
      Left e -> ([], Left e)
      Right (a, _) -> ([a], Right ())
    _ -> pure ([], Right ())

-- | Take pieces from a source, which returns an empty one at the end, and run an action on each value.
--
-- [Cost]: the check's, the decoder's, the source's and the action's.
-- [Blocks]: as the source and the action.
-- [Throws]: what they throw.
forEach :: Stream a -> IO ByteString -> (a -> IO ()) -> IO (Either Malformed ())
forEach start source act = go start
  where
    go s = do
      text <- source
      if ByteString.null text
        then let (results, end) = finish s in mapM_ act results >> pure end
        else do
          let (results, next) = feed s text
          mapM_ act results
          either (pure . Left) go next

-- | A line of JSON Lines that is not blank.
data Line a = Line
  { -- | Counted from 1; blank lines count.
    lineNumber :: !Int,
    -- | How many bytes of the text are before it.
    lineOffset :: !Int,
    -- | Its bytes, without the newline; empty if it is longer than 'limitSize'.
    lineText :: !ByteString,
    -- | Its value, or its error, whose offset counts from the text's first byte.
    lineResult :: !(Either Malformed a)
  }
  deriving stock (Eq, Show)

-- | The state of decoding lines.
data Lines a = Lines
  { linesDecode :: !(ByteString -> Either Malformed a),
    linesLimits :: !Limits,
    linesNumber :: !Int,
    -- | The offset of the line that has not ended.
    linesOffset :: !Int,
    linesHeld :: !Held
  }

-- | The pieces of that line, the last one first, and their length; only the length once it exceeds the limit.
data Held
  = Held !Int [ByteString]
  | TooMuch !Int

-- | JSON Lines (NDJSON): each line is one value, checked and decoded by itself. The result of an invalid line is its
-- error, and decoding continues with the next line; in 'values', an error ends the stream. 'limitSize' holds for each
-- line, so memory is bounded.
--
-- >>> map lineResult (fst (feedLines (jsonLines defaultLimits Right) "[1]\n{\"a\": tru}\n[2]\n"))
-- [Right "[1]",Left (Malformed {malformedOffset = 13, malformedPath = [], malformedReason = Expected "true"}),Right "[2]"]
--
-- [Cost]: some words.
jsonLines :: Limits -> (ByteString -> Either Malformed a) -> Lines a
jsonLines limits decode = Lines decode limits 1 0 (Held 0 [])

-- | Feed one more piece: the lines that end in it, and the next state.
--
-- Law (@linesAnyChunking@): however a text is cut into pieces, the lines are the same.
--
-- [Cost]: the check's and the decoder's. A line that lies within the piece is not copied.
feedLines :: Lines a -> ByteString -> ([Line a], Lines a)
feedLines before text = case Char8.elemIndex '\n' text of
  Nothing -> ([], holdLine text before)
  Just n ->
    let ended = holdLine (ByteString.take n text) before
        size = heldLength (linesHeld ended)
        next = ended {linesNumber = linesNumber ended + 1, linesOffset = linesOffset ended + size + 1, linesHeld = Held 0 []}
        (more, after) = feedLines next (ByteString.drop (n + 1) text)
     in (lineOf ended ++ more, after)

-- | End the text: a last line without a newline.
--
-- [Cost]: the check's and the decoder's.
finishLines :: Lines a -> [Line a]
finishLines = lineOf

heldLength :: Held -> Int
heldLength = \case
  Held n _ -> n
  TooMuch n -> n

holdLine :: ByteString -> Lines a -> Lines a
holdLine piece s = s {linesHeld = held}
  where
    size = heldLength (linesHeld s) + ByteString.length piece
    held = case linesHeld s of
      Held _ pieces | size <= limitSize (linesLimits s) -> Held size (if ByteString.null piece then pieces else piece : pieces)
      _ -> TooMuch size

lineOf :: Lines a -> [Line a]
lineOf s = case linesHeld s of
  TooMuch _ -> [line ByteString.empty (Left (Malformed (limitSize limits) [] (TooLarge (limitSize limits))))]
  Held _ pieces
    | Char8.all (`elem` " \t\r") text -> []
    | otherwise -> [line text (check limits text >> linesDecode s text)]
    where
      text = case pieces of
        [one'] -> one'
        _ -> ByteString.concat (reverse pieces)
  where
    limits = linesLimits s
    line text result = Line (linesNumber s) (linesOffset s) text (either (Left . placed) Right result)
    placed e = e {malformedOffset = linesOffset s + malformedOffset e}

-- | Take pieces from a source, which returns an empty one at the end, and run an action on each line.
--
-- [Cost]: the check's, the decoder's, the source's and the action's.
-- [Blocks]: as the source and the action.
-- [Throws]: what they throw.
forEachLine :: Lines a -> IO ByteString -> (Line a -> IO ()) -> IO ()
forEachLine start source act = go start
  where
    go s = do
      text <- source
      if ByteString.null text
        then mapM_ act (finishLines s)
        else do
          let (found, next) = feedLines s text
          mapM_ act found
          next `seq` go next
