{-# LANGUAGE OverloadedStrings #-}

-- | The oracles themselves: they agree with each other, and with what is known.
module OracleTest
  ( tests,
  )
where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Char8 qualified as Char8
import Oracle
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertEqual, testCase)

tests :: TestTree
tests =
  testGroup
    "Oracle"
    [ withOracle make $ \oracle ->
        testGroup
          name
          [ testCase "valid documents, with their values" $ do
              asked <- oracle
              forM_ valid $ \(document, value) ->
                assertEqual (show document) (Valid (canonical value)) =<< ask asked document,
            testCase "invalid documents" $ do
              asked <- oracle
              forM_ invalid $ \document -> assertEqual (show document) Invalid =<< ask asked document,
            testCase "halves of surrogate pairs, escaped" $ do
              asked <- oracle
              assertEqual "half" (Valid "\"d800") =<< ask asked "\"\\ud800\"",
            testCase "long and deep documents" $ do
              asked <- oracle
              let long = ByteString.intercalate "," (replicate 100000 "[1]")
              assertEqual "long" (Valid ("[" <> ByteString.intercalate "," (replicate 100000 "[#3ff0000000000000]") <> "]")) =<< ask asked ("[" <> long <> "]")
              assertEqual "deep" (Valid (Char8.replicate 512 '[' <> Char8.replicate 512 ']')) =<< ask asked (Char8.replicate 512 '[' <> Char8.replicate 512 ']')
          ]
      | (name, make) <- [("python", python), ("node", node)]
    ]

valid :: [(ByteString, Canon)]
valid =
  [ ("null", CNull),
    (" \t\r\n[true,false]\n", CArray [CBool True, CBool False]),
    ("-0", CNumber (-0.0)),
    ("1e400", CNumber (1 / 0)),
    ("123456789012345678901234567890", CNumber 123456789012345678901234567890),
    ("5e-324", CNumber 5.0e-324),
    ("2.2250738585072011e-308", CNumber 2.225073858507201e-308),
    ("\"a\\u00e9\\ud83d\\ude00\\n\\/\"", CString "a\233\128512\n/"),
    ("\"\\u0000\"", CString "\0"),
    ("\"\xc3\xa9\xf0\x9f\x98\x80\"", CString "\233\128512"),
    ("{\"b\":1,\"a\":{},\"b\":2}", CObject [("a", CObject []), ("b", CNumber 2)]),
    ("{\"10\":[],\"9\":\"\",\"__proto__\":null}", CObject [("9", CString ""), ("10", CArray []), ("__proto__", CNull)]),
    ("{\"\xf0\x9f\x98\x80\":1,\"\xef\xbf\xbd\":2}", CObject [("\128512", CNumber 1), ("\65533", CNumber 2)])
  ]

invalid :: [ByteString]
invalid =
  [ "",
    " ",
    "nul",
    "NaN",
    "-Infinity",
    "01",
    "1.",
    ".5",
    "+1",
    "1e",
    "[1,]",
    "[1 2]",
    "{\"a\":1,}",
    "{a:1}",
    "{\"a\"}",
    "'a'",
    "\"\t\"",
    "\"\\x\"",
    "\"\\u12\"",
    "\"a",
    "[",
    "[]]",
    "1 2",
    "\xef\xbb\xbf[]",
    "\"\xff\"",
    "\"\xed\xa0\x80\"",
    "\"\xc0\x80\"",
    "\"\xf4\x90\x80\x80\"",
    "[]\0",
    "\xc2\xa0[]",
    "/**/1"
  ]
