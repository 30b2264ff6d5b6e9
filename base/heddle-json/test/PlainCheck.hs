-- | Checking JSON, written to be read.
--
-- The grammar of RFC 8259 as functions from an offset in the text to the end of the value there. Tests compare the
-- automaton of "Heddle.Json.Check" with it on every text.
--
-- Cost: some 100 ns for each byte, and stack for each level of nesting.
module PlainCheck
  ( check,
    values,
    elements,
  )
where

import Control.Monad (when)
import Data.Bits (shiftL, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Char8 qualified as Char8
import Data.Char (chr, isDigit, isHexDigit, ord)
import Data.Word (Word8)
import Heddle.Json.Malformed
import Heddle.Json.Options (Limits (..))

-- | Is it one value?
--
-- [Cost]: O(n).
check :: Limits -> ByteString -> Either Malformed ()
check limits text
  | ByteString.length text > size = case check limits (ByteString.take size text) of
    Left e | malformedReason e /= Truncated -> Left e
    _ -> refuse size (TooLarge size)
  | otherwise = do
    end <- blanks text <$> firstValue limits text (blanks text 0)
    when (end < ByteString.length text) (refuse end TrailingBytes)
  where
    size = limitSize limits

-- | Any number of values: where each begins and ends, and the error after them.
--
-- [Cost]: O(n).
values :: Limits -> ByteString -> ([(Int, Int)], Maybe Malformed)
values limits text = go (blanks text 0)
  where
    go at
      | at >= ByteString.length text = ([], Nothing)
      | otherwise = case firstValue limits text at of
        Left e -> ([], Just e)
        Right end
          | separate at end -> let (spans, e) = go (blanks text end) in ((at, end) : spans, e)
          | otherwise -> ([(at, end)], Just (Malformed end [] (Expected "white space between values")))
    separate at end =
      maybe False (`elem` "\"[{") (look text at)
        || maybe True (`elem` " \t\r\n\"[{") (look text end)

-- | One array: where each of its elements begins and ends, and the error after them.
--
-- [Cost]: O(n).
elements :: Limits -> ByteString -> ([(Int, Int)], Maybe Malformed)
elements limits text = case look text start of
  Just '[' | limitDepth limits > 0 -> go (Expected "a value or ']'") (blanks text (start + 1))
  Just '[' -> stop start (TooDeep 0)
  Just c | Just found <- lookup c kinds -> stop start (WrongKind "an array" found)
  _ -> ([], either Just (const Nothing) (firstValue limits text start))
  where
    start = blanks text 0
    stop offset reason = ([], Just (Malformed offset [] reason))
    kinds =
      [('"', "a string"), ('{', "an object"), ('t', "true"), ('f', "false"), ('n', "null")]
        <> map (\c -> (c, "a number")) "-0123456789"
    go expected at
      | look text at == Just ']', Expected "a value or ']'" <- expected = behind (at + 1)
      | otherwise = case value limits expected text 1 at of
        Left e -> ([], Just e)
        -- This number might have gone on.
        Right end | end == ByteString.length text, Just c <- look text at, c == '-' || isDigit c -> stop end Truncated
        Right end -> let (spans, e) = next (blanks text end) in ((at, end) : spans, e)
    next at = case look text at of
      Just ',' -> go (Expected "a value") (blanks text (at + 1))
      Just ']' -> behind (at + 1)
      Just _ -> stop at (Expected "',' or ']'")
      Nothing -> stop at Truncated
    behind end
      | blanks text end < ByteString.length text = stop (blanks text end) TrailingBytes
      | otherwise = ([], Nothing)

type Result = Either Malformed Int

refuse :: Int -> Reason -> Either Malformed a
refuse offset reason = Left (Malformed offset [] reason)

look :: ByteString -> Int -> Maybe Char
look text at
  | at < ByteString.length text = Just (Char8.index text at)
  | otherwise = Nothing

blanks :: ByteString -> Int -> Int
blanks text at = at + ByteString.length (Char8.takeWhile (`elem` " \t\r\n") (ByteString.drop at text))

-- At the beginning, there might be a byte order mark.
firstValue :: Limits -> ByteString -> Int -> Result
firstValue limits text at
  | at == 0, ByteString.take 3 text == ByteString.pack [0xef, 0xbb, 0xbf] = refuse 0 ByteOrderMark
  | otherwise = value limits (Expected "a value") text 0 at

-- A value at this depth of arrays and objects.
value :: Limits -> Reason -> ByteString -> Int -> Int -> Result
value limits expected text depth at = case look text at of
  Nothing -> refuse at Truncated
  Just '"' -> string text (at + 1)
  Just '[' -> enter (array (blanks text (at + 1)))
  Just '{' -> enter (object (blanks text (at + 1)))
  Just 't' -> literal "true"
  Just 'f' -> literal "false"
  Just 'n' -> literal "null"
  Just c
    | c == '-' || isDigit c -> number limits text at
    | otherwise -> refuse at expected
  where
    enter inside
      | depth >= limitDepth limits = refuse at (TooDeep (limitDepth limits))
      | otherwise = inside
    literal word
      | given == wanted = Right (at + length word)
      | at + same == ByteString.length text = refuse (at + same) Truncated
      | otherwise = refuse (at + same) (Expected word)
      where
        wanted = Char8.pack word
        given = ByteString.take (length word) (ByteString.drop at text)
        same = length (takeWhile id (ByteString.zipWith (==) given wanted))
    array start
      | look text start == Just ']' = Right (start + 1)
      | otherwise = value limits (Expected "a value or ']'") text (depth + 1) start >>= next . blanks text
      where
        next here = case look text here of
          Just ']' -> Right (here + 1)
          Just ',' -> value limits (Expected "a value") text (depth + 1) (blanks text (here + 1)) >>= next . blanks text
          Just _ -> refuse here (Expected "',' or ']'")
          Nothing -> refuse here Truncated
    object start
      | look text start == Just '}' = Right (start + 1)
      | otherwise = member (Expected "a key or '}'") start
    member otherwise' start = case look text start of
      Just '"' -> do
        colon <- blanks text <$> string text (start + 1)
        case look text colon of
          Just ':' -> pure ()
          Just _ -> refuse colon (Expected "':'")
          Nothing -> refuse colon Truncated
        here <- blanks text <$> value limits (Expected "a value") text (depth + 1) (blanks text (colon + 1))
        case look text here of
          Just '}' -> Right (here + 1)
          Just ',' -> member (Expected "a key") (blanks text (here + 1))
          Just _ -> refuse here (Expected "',' or '}'")
          Nothing -> refuse here Truncated
      Just _ -> refuse start otherwise'
      Nothing -> refuse start Truncated

-- A number: its characters are taken one state after the other, and counted.
number :: Limits -> ByteString -> Int -> Result
number limits text start = case look text start of
  Just '-' -> digitThen leading (start + 1)
  _ -> leading start
  where
    leading at
      | look text at == Just '0' = case look text (at + 1) of
        Just c | isDigit c -> stop (at + 1) (Expected "no digit after a leading zero")
        _ -> fraction (at + 1)
      | otherwise = fraction (digits at)
    fraction at
      | look text at == Just '.' = digitThen (exponent' . digits) (at + 1)
      | otherwise = exponent' at
    exponent' at
      | look text at `elem` [Just 'e', Just 'E'] = digitThen (done . digits) (if look text (at + 1) `elem` [Just '+', Just '-'] then at + 2 else at + 1)
      | otherwise = done at
    digits at = at + ByteString.length (Char8.takeWhile isDigit (ByteString.drop at text))
    digitThen go at = case look text at of
      Just c
        | isDigit c -> go at
        | otherwise -> stop at (Expected "a digit")
      Nothing -> stop at Truncated
    done at
      | at - start > limitNumber limits = tooLong
      | otherwise = Right at
    stop at reason
      | at - start > limitNumber limits = tooLong
      | otherwise = refuse at reason
    tooLong = refuse start (NumberTooLong (limitNumber limits))

-- A string, from after its first quote.
string :: ByteString -> Int -> Result
string text at = case look text at of
  Nothing -> refuse at Truncated
  Just '"' -> Right (at + 1)
  Just '\\' -> escape text at >>= string text
  Just c
    | c < ' ' -> refuse at ControlCharacter
    | c < '\x80' -> string text (at + 1)
    | otherwise -> wide text at >>= string text

escape :: ByteString -> Int -> Result
escape text at = case look text (at + 1) of
  Nothing -> refuse (at + 1) Truncated
  Just 'u' -> do
    unit <- hex (at + 2)
    if unit < 0xd800 || unit > 0xdfff
      then Right (at + 6)
      else if unit >= 0xdc00 then alone else second (at + 6)
  Just c
    | c `elem` "\"\\/bfnrt" -> Right (at + 2)
    | otherwise -> refuse at BadEscape
  where
    alone = refuse at LoneSurrogate
    hex :: Int -> Either Malformed Int
    hex start
      | Char8.all isHexDigit given, ByteString.length given == 4 = Right (read ("0x" <> Char8.unpack given))
      | Char8.all isHexDigit given = refuse (ByteString.length text) Truncated
      | otherwise = refuse at BadEscape
      where
        given = ByteString.take 4 (ByteString.drop start text)
    second start
      | and matches, length matches == 6 = Right (start + 6)
      | and matches = refuse (ByteString.length text) Truncated
      | otherwise = alone
      where
        matches = zipWith ($) [(== '\\'), (== 'u'), (`elem` "dD"), (`elem` "cdefCDEF"), isHexDigit, isHexDigit] (Char8.unpack (ByteString.take 6 (ByteString.drop start text)))

-- A character of several bytes: they are decoded, and must be the encoding of the result.
wide :: ByteString -> Int -> Result
wide text at
  | wanted `elem` whole = Right (at + size)
  | wanted `elem` parts = refuse (ByteString.length text) Truncated
  | otherwise = refuse at InvalidUtf8
  where
    first = ByteString.index text at
    size
      | first < 0xe0 = 2
      | first < 0xf0 = 3
      | otherwise = 4
    wanted = ByteString.unpack (ByteString.take size (ByteString.drop at text))
    -- The bytes again, if they are those of a character.
    whole = filter (\bytes -> length bytes == size && encodes bytes) [wanted]
    -- Can the text's last bytes be the beginning of a character? It is enough to try second bytes at both ends.
    parts =
      [ take (length wanted) bytes
        | length wanted < size,
          second <- [0x80, 0x90, 0x9f, 0xa0] <> take 1 (drop 1 wanted),
          let bytes = take size (first : second : drop 2 wanted <> repeat 0x80),
          encodes bytes
      ]
    encodes bytes = all continues (drop 1 bytes) && code <= 0x10ffff && not (0xd800 <= code && code <= 0xdfff) && encode (chr code) == bytes
      where
        code = foldl (\n byte -> n `shiftL` 6 .|. fromIntegral (byte .&. 0x3f)) (fromIntegral first .&. mask) (drop 1 bytes)
        mask
          | size == 2 = 0x1f
          | size == 3 = 0x0f
          | otherwise = 0x07 :: Int

continues :: Word8 -> Bool
continues byte = byte .&. 0xc0 == 0x80

-- The one encoding of a character.
encode :: Char -> [Word8]
encode c
  | n < 0x80 = [fromIntegral n]
  | n < 0x800 = [lead 0xc0 6, tail' 0]
  | n < 0x10000 = [lead 0xe0 12, tail' 6, tail' 0]
  | otherwise = [lead 0xf0 18, tail' 12, tail' 6, tail' 0]
  where
    n = ord c
    lead bits by = fromIntegral (bits .|. (n `quot` (2 ^ (by :: Int))))
    tail' :: Int -> Word8
    tail' by = fromIntegral (0x80 .|. (n `quot` (2 ^ by)) .&. 0x3f)
