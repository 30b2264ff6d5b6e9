-- |
-- Module      : Heddle.Bytes.Json.Stream
-- Description : Decoding one value after the other, from text in pieces
-- Stability   : stable
--
-- For texts that are too long to be held: each value (JSON Lines, or values one after the other), or each element of
-- one array, is decoded as soon as its last byte is there. The text is checked on the way ("Heddle.Bytes.Json.Check"),
-- also what is between the elements.
--
-- Law (@streamAnyChunking@): however a text is cut into pieces, the results and the error are the same.
--
-- Cost: that of the check and of the decoder; memory for the largest element and one piece.
-- Owner: a 'Stream' is a value.
module Heddle.Bytes.Json.Stream
  ( Stream,
    values,
    elements,
    feed,
    finish,

    -- * Loops
    forEach,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Unsafe qualified as ByteString (unsafeUseAsCStringLen)
import Foreign.Ptr (castPtr, plusPtr)
import Heddle.Bytes.Internal.Check
import Heddle.Bytes.Json.Malformed
import Heddle.Bytes.Json.Options (Limits (..))
import Heddle.Prim.Cpu (level)
import Heddle.Prim.Pure (unsafePure)

-- | Where decoding stands, after so much of a text.
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

-- | A value that has begun: its offset, how long it is so far, and its bytes, last piece first.
data Begun = Begun !Int !Int [ByteString]

-- | Any number of values, each given to the decoder. That is mostly @decode limits decoder@
-- ("Heddle.Bytes.Json.Decode"). White space between them is needed only behind numbers and
-- literals. 'limitSize' holds for each value. For records that may be wrong, the decoder can have a result for
-- those, too: @Right . decode@.
--
-- >>> fst (feed (values defaultLimits Right) "{\"a\": 1}\n[2")
-- ["{\"a\": 1}"]
--
-- Law (@streamFindsValues@): what is decoded is what "Heddle.Bytes.Json.Check.Plain" finds.
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

-- | One more piece: what could be decoded, and how to go on.
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

-- Keep a piece of the value that has begun, if one has.
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

-- An error within an element says in which.
named :: Stream a -> Malformed -> Malformed
named s e
  | streamArray s, Just _ <- streamBegun s = e {malformedPath = InElement (streamCount s) : malformedPath e}
  | otherwise = e

-- | The text ends here: a last value, if that was a number that could have gone on, or what is wrong.
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

-- | Take pieces from a source, which gives an empty one at the end, and act on each value.
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
