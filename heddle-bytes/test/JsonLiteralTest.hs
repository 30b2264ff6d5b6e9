-- | Keys that are literals: what they are, and how large.
module JsonLiteralTest
  ( tests,
  )
where

import Data.ByteString.Char8 qualified as Char8
import Data.Char (isHexDigit)
import Data.List (intercalate, isInfixOf)
import Heddle.Bytes.Json.Build (encode, int, object, (<:>))
import Heddle.Bytes.Put (toByteString)
import JsonLiterals (hundred)
import Numeric (readHex)
import System.Environment (getExecutablePath)
import System.Process (readProcess)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "Json.Build: literals"
    [ testCase "the keys" $
        toByteString (encode (object (foldMap (<:> int (0 :: Int)) hundred)))
          @?= Char8.pack ("{" <> intercalate "," ["\"the literal key 00" <> two i <> "\":0" | i <- [0 .. 99 :: Int]] <> "}"),
      testCase "a key of 20 bytes is at most 250 bytes of program" $ do
        program <- getExecutablePath
        symbols <- readProcess "nm" [program] ""
        -- Each kind of section has the module's symbols next to each other.
        let places =
              [ (kind, address)
                | [number, [kind], name] <- map words (lines symbols),
                  "JsonLiterals" `isInfixOf` name,
                  all isHexDigit number,
                  [(address, "")] <- [readHex number :: [(Int, String)]]
              ]
            size kind = case [address | (k, address) <- places, k == kind] of
              [] -> 0
              at -> maximum at - minimum at
            total = sum (map size "tTdDrRbB")
        assertBool ("symbols of the module: " <> show (length places)) (length places > 100)
        assertBool (show total <> " bytes for 100 keys") (total <= 25000)
    ]
  where
    two i = if i < 10 then '0' : show i else show i
