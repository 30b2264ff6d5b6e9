-- | UTF-8: checking, decoding to Text and encoding from Text, so many passes over a document.
--
-- A way is WHAT-DOCUMENT-SIZE-WHO. WHAT: @validate@, @totext@, @encode@, @replace@. DOCUMENT:
-- @ascii@, @cjk@, @mixed@ (85 % ASCII, 12 % accented letters, 3 % emoji), and of replace
-- @bad@ (ASCII, and 10 % bytes that UTF-8 does not have). SIZE, in bytes: @16@, @1k@, @32k@, @1m@.
-- WHO: @heddle@, @text@; and of validate @plain@, the twin without vectors. The answer is the bytes,
-- or units, of all passes. @c/bytes_utf8_simdjson.cpp@ validates the same documents.
module Main (main) where

import Data.Bits (unsafeShiftR)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Unsafe qualified as ByteString (unsafeUseAsCStringLen)
import Data.Maybe (fromMaybe)
import Data.Text.Encoding qualified as Text
import Data.Text.Encoding.Error qualified as Text
import Data.Word (Word64, Word8)
import Foreign.Ptr (castPtr)
import Heddle.Bytes.TextArray (textArray)
import Heddle.Bytes.Utf8 qualified as Utf8
import Heddle.Bytes.Utf8.Plain qualified as Plain
import Heddle.Measure.Contender (contender, contenderMain, oneNumber)
import Heddle.Testkit.Utf8 (spell)

main :: IO ()
main =
  contenderMain (oneNumber "N") . map (uncurry contender) $
    [ (what <> "-" <> name <> "-" <> size <> "-" <> who, way (document name bytes))
      | (name, _) <- alphabets,
        (size, bytes) <- [("16", 16), ("1k", 1000), ("32k", 32768), ("1m", 1048576)],
        (what, who, way) <-
          [ ("validate", "heddle", passes valid),
            ("validate", "plain", passesIO validPlain),
            ("totext", "heddle", passes (units . heddleText)),
            ("totext", "text", passes (units . Text.decodeUtf8)),
            ("replace", "heddle", passes (units . Utf8.decodeReplacing)),
            ("replace", "text", passes (units . Text.decodeUtf8With Text.lenientDecode)),
            ("encode", "heddle", passes (ByteString.length . Utf8.encode) . Text.decodeUtf8),
            ("encode", "text", passes (ByteString.length . Text.encodeUtf8) . Text.decodeUtf8)
          ],
        name /= "bad" || what == "replace"
    ]
  where
    valid text = either (const 0) (const (ByteString.length text)) (Utf8.validate text)
    validPlain text = ByteString.unsafeUseAsCStringLen text (\(p, n) -> Plain.validLength (castPtr p) n)
    heddleText = either (error . show) id . Utf8.decode
    units text = case textArray text of (_, _, n) -> n

-- | The sum over so many passes.
passes :: (a -> Int) -> a -> Int -> IO Int
passes f = passesIO (once f)

passesIO :: (a -> IO Int) -> a -> Int -> IO Int
passesIO f x n = go n 0
  where
    go :: Int -> Int -> IO Int
    go k !total
      | k == 0 = pure total
      | otherwise = do
        some <- f x
        go (k - 1) (total + some)

-- Not a value that all passes share.
once :: (a -> Int) -> a -> IO Int
once f x = pure $! f x
{-# NOINLINE once #-}

-- | Exactly so many bytes, the same in every program.
document :: String -> Int -> ByteString
document name size = fst (ByteString.unfoldrN size piece ([], 20261122, size))
  where
    alphabet = fromMaybe (const []) (lookup name alphabets)
    piece :: ([Word8], Word64, Int) -> Maybe (Word8, ([Word8], Word64, Int))
    piece (b : rest, seed, left) = Just (b, (rest, seed, left - 1))
    piece ([], seed, left)
      | left <= 0 = Nothing
      | length bytes > left = piece (replicate left 0x20, seed', left)
      | otherwise = piece (bytes, seed', left)
      where
        seed' = seed * 6364136223846793005 + 1442695040888963407
        bytes = alphabet (fromIntegral (seed' `unsafeShiftR` 33))

alphabets :: [(String, Int -> [Word8])]
alphabets =
  [ ("ascii", spell . ascii),
    ("cjk", \r -> spell (toEnum (0x4e00 + r `rem` 20000))),
    ("mixed", spell . mixed),
    ("bad", \r -> if r `rem` 10 == 0 then [0xff] else spell (ascii r))
  ]
  where
    ascii r = toEnum (0x20 + r `rem` 95)
    mixed r
      | kind < 85 = ascii rest
      | kind < 97 = toEnum (0xc0 + rest `rem` 0x80)
      | otherwise = toEnum (0x1f600 + rest `rem` 80)
      where
        (rest, kind) = r `quotRem` 100
