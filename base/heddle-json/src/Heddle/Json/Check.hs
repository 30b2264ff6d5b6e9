-- |
-- Module      : Heddle.Json.Check
-- Description : Validates JSON of any size, and reformats it
-- Stability   : stable
--
-- An automaton that takes a text in pieces of any size, in one pass and in memory that does not depend on its length,
-- and reports the exact byte of the first error (RFC 8259; the text must be UTF-8 without a byte order mark, and
-- surrogates in escapes must be paired). Nothing is decoded: numbers of any magnitude and duplicate keys are valid.
--
-- Law (@anyChunking@): however a text is cut into pieces, verdict, offset and reason are the same, and those of
-- a plain parser (@PlainCheck@, in the tests).
--
-- Cost: validating 0.3 to 1 ns for each byte; reformatting about the same again; one bit for each level of nesting.
-- Owner: a 'Checker' is a value; an 'Automaton', a 'Formatter' or a 'Position' belongs to one thread at a time.
module Heddle.Json.Check
  ( -- * A whole text
    check,
    minify,
    pretty,
    relines,

    -- * A text in pieces
    Shape (..),
    Checker,
    checker,
    feed,
    finish,

    -- * Over memory

    -- | For loops of reads and writes: nothing is allocated for a piece besides an 'Event'.
    Automaton,
    Event (..),
    newAutomaton,
    copyAutomaton,
    advance,
    atEnd,
    taken,

    -- ** Layout
    Layout (..),
    Formatter,
    newFormatter,
    layOut,
    endLayout,

    -- ** Lines and columns
    Position,
    newPosition,
    movePosition,
    lineColumn,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Internal qualified as ByteString (fromForeignPtr)
import Data.ByteString.Unsafe qualified as ByteString (unsafeUseAsCStringLen)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Json.Internal.Check
import Heddle.Json.Malformed (Malformed)
import Heddle.Json.Options (Limits (..))
import Heddle.Prim.Buffer (Buffer, bufferForeign, newBuffer, withBuffer)
import Heddle.Prim.Cpu (level)
import Heddle.Prim.Unsafe (unsafePure)

-- | Whether a text is one value within the limits of depth, size and a number's characters.
--
-- >>> check defaultLimits "[1, 2, {\"a\": null}]"
-- Right ()
-- >>> check defaultLimits "[1, 2"
-- Left (Malformed {malformedOffset = 5, malformedPath = [], malformedReason = Truncated})
--
-- Law (@agreesWithTwin@): the answer is that of a plain parser.
--
-- [Cost]: 0.3 to 1 ns for each byte; 192 bytes, and a bit for each level above 1,024.
check :: Limits -> ByteString -> Either Malformed ()
check limits text = unsafePure $ do
  automaton <- newAutomaton level limits OneValue
  withText text (advance automaton) >>= \case
    Wrong e -> pure (Left e)
    _ -> verdict <$> atEnd automaton

verdict :: Event -> Either Malformed ()
verdict = \case
  Wrong e -> Left e
  _ -> Right ()

-- | One value without white space; strings and numbers are unchanged.
--
-- >>> minify defaultLimits "[1, 2, {\"a b\": null}]"
-- Right "[1,2,{\"a b\":null}]"
--
-- Law (@minifyIsIdempotent@): minifying again changes nothing.
--
-- [Cost]: as 'check', and about a tenth of that; the result, which is at most as long as the text.
minify :: Limits -> ByteString -> Either Malformed ByteString
minify = reformat OneValue Minified

-- | One value with a line for each element, indented by this many blanks for each level, as by Python's @json.dumps@,
-- and with a newline at the end.
--
-- >>> pretty defaultLimits 2 "[1,{}]"
-- Right "[\n  1,\n  {}\n]\n"
--
-- Law (@layoutKeepsTheValue@): minifying the result gives what minifying the text gives.
--
-- [Cost]: as 'check', twice; the result.
pretty :: Limits -> Int -> ByteString -> Either Malformed ByteString
pretty limits indent = reformat OneValue (Indented indent) limits

-- | Any number of values ('ManyValues'), each minified on its own line: JSON Lines.
--
-- >>> relines defaultLimits "{\"a\": 1} [ ]2"
-- Right "{\"a\":1}\n[]\n2\n"
--
-- [Cost]: as 'check', twice; the result.
relines :: Limits -> ByteString -> Either Malformed ByteString
relines = reformat ManyValues Lines

-- Validated as a whole, then reformatted: an invalid text produces no output.
reformat :: Shape -> Layout -> Limits -> ByteString -> Either Malformed ByteString
reformat shape layout limits text = unsafePure $ do
  automaton <- newAutomaton level limits shape
  withText text (advance automaton) >>= \case
    Wrong e -> pure (Left e)
    _ -> atEnd automaton >>= traverse (const laidOut) . verdict
  where
    laidOut = do
      formatter <- newFormatter level layout
      withText text $ \p len -> collect formatter p len (max 64 len) []
    -- Every piece but the last is full.
    collect formatter p len size pieces = do
      buffer <- newBuffer size
      (took, wrote) <- withBuffer buffer (layOut formatter p len `flip` size)
      if wrote == size
        then collect formatter (p `plusPtr` took) (len - took) size (piece buffer wrote : pieces)
        else do
          endLayout formatter
          (_, more) <- withBuffer buffer (\to -> layOut formatter p 0 (to `plusPtr` wrote) (size - wrote))
          pure (joined (piece buffer (wrote + more) : pieces) size)
    -- Copy a result that is much smaller than its memory.
    joined [one] size
      | 2 * ByteString.length one < size = ByteString.copy one
      | otherwise = one
    joined pieces _ = ByteString.concat (reverse pieces)

piece :: Buffer -> Int -> ByteString
piece buffer = ByteString.fromForeignPtr (bufferForeign buffer 0) 0

-- | The state of a check after the pieces so far.
newtype Checker = Checker Automaton

-- | The state before the first byte. A 'Checker' announces nothing: 'Values' means 'ManyValues', and 'Elements' accepts
-- one array.
--
-- [Cost]: 192 bytes.
checker :: Limits -> Shape -> Checker
checker limits shape = unsafePure (Checker <$> newAutomaton level limits shape)

-- | The state after one more piece.
--
-- >>> void (feed (checker defaultLimits OneValue) "[1, 02")
-- Left (Malformed {malformedOffset = 5, malformedPath = [], malformedReason = Expected "no digit after a leading zero"})
--
-- [Cost]: 0.3 to 1 ns for each byte; 192 bytes, and a bit for each level above 1,024.
feed :: Checker -> ByteString -> Either Malformed Checker
feed (Checker before) text = unsafePure $ do
  automaton <- copyAutomaton before
  withText text $ \p len ->
    let go from =
          advance automaton (p `plusPtr` from) (len - from) >>= \case
            Taken -> pure (Right (Checker automaton))
            Wrong e -> pure (Left e)
            Begins n -> go (from + n)
            Ends n -> go (from + n)
     in go 0

-- | End the text: may it end here?
--
-- [Cost]: a copy of the state.
finish :: Checker -> Either Malformed ()
finish (Checker before) = unsafePure (copyAutomaton before >>= fmap verdict . atEnd)

withText :: ByteString -> (Ptr Word8 -> Int -> IO a) -> IO a
withText text act = ByteString.unsafeUseAsCStringLen text (\(p, len) -> act (castPtr p) len)
