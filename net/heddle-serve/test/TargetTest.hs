{-# LANGUAGE OverloadedStrings #-}

-- | Addresses made from requests.
module TargetTest (tests) where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Either (isLeft)
import Heddle.Serve.Internal
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "addresses made from requests"
    [ testCase "variables" variables,
      testCase "as users write them" written,
      testCase "what is no address" notWritten,
      testProperty "headerInjection: whatever clients send, no byte ends a header or a request line" uninjected
    ]

filling :: Filling
filling = Filling {fillScheme = "https", fillHost = "example.org", fillAuthority = "example.org:8443", fillPath = "/a/b%20c/", fillRest = "b%20c/", fillQuery = "x=1&y"}

filled :: String -> Filling -> Either String ByteString
filled text with = (`fillTarget` with) <$> parseTarget text

variables :: IO ()
variables = do
  filled "https://www.$host$request_uri" filling @?= Right "https://www.example.org/a/b%20c/?x=1&y"
  filled "$scheme://$http_host$uri" filling @?= Right "https://example.org:8443/a/b%20c/"
  filled "/new/$rest$is_args$args" filling @?= Right "/new/b%20c/?x=1&y"
  filled "/index.php?$query_string" filling @?= Right "/index.php?x=1&y"
  filled "/new$is_args$args" filling {fillQuery = ""} @?= Right "/new"
  filled "$request_uri" filling {fillQuery = ""} @?= Right "/a/b%20c/"
  filled "${host}x$$host" filling @?= Right "example.orgx$host"
  filled "/\228 b" filling @?= Right "/%C3%A4%20b"

written :: IO ()
written = forM_ ["https://$host$request_uri", "/a", "/$$x", "${host}x", "$host/x", "${args}1"] $ \text -> fmap renderTarget (parseTarget text) @?= Right text

notWritten :: IO ()
notWritten = forM_ ["$", "$ x", "${host", "${}", "$nothing", "/a\r\nX: y", "/a\0", "$Host"] $ \text -> assertBool text (isLeft (parseTarget text))

uninjected :: Property
uninjected = forAll (vectorOf 6 (B.pack <$> listOf (frequency [(3, elements [0, 9, 10, 13, 32, 34, 37, 60, 62, 127, 255]), (5, arbitrary)]))) $ \case
  [a, b, c, d, e, f] ->
    let made = filled "$scheme://$host$http_host$uri/$rest?$args$request_uri" (Filling a b c d e f)
     in case made of
          Left e' -> counterexample e' False
          Right address -> counterexample (show address) (C.all (\x -> x > ' ' && x < '\DEL') address)
  _ -> property False
