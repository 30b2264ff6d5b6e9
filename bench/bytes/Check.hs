-- | Checking and minifying JSON; reading it into aeson's Value beside it.
--
-- The answer is the document's bytes, times N. The C twin is c/bytes_json_simdjson.cpp.
module Main
  ( main,
  )
where

import Data.Aeson (Value, decodeStrict')
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Documents (readDocument)
import Heddle.Json.Check
import Heddle.Json.Options
import Heddle.Measure.Contender (contender, contenderMain, oneNumber)

main :: IO ()
main =
  contenderMain (oneNumber "N") . map (uncurry contender) $
    [ (way <> "-" <> name, \n -> readDocument name >>= \text -> passes (act text) n)
      | name <- ["twitter", "records", "numbers"],
        (way, act) <-
          [ ("check", counting (either (const False) (const True) . check limits)),
            ("minify", counting (either (const False) (not . ByteString.null) . minify limits)),
            ("pretty", counting (either (const False) (not . ByteString.null) . pretty limits 2)),
            ("aeson", counting (maybe False (\value -> (value :: Value) `seq` True) . decodeStrict'))
          ]
    ]
  where
    limits = defaultLimits {limitSize = maxBound}
    counting right text i = let again = sameText i text in if right again then ByteString.length again else 0

passes :: (Int -> Int) -> Int -> IO Int
passes act = go 0
  where
    go !total 0 = pure total
    go !total n = go (total + act n) (n - 1)

-- The text, but the compiler does not know: every pass is done.
sameText :: Int -> ByteString -> ByteString
sameText i text = if i < 0 then ByteString.empty else text
{-# NOINLINE sameText #-}
