{-# LANGUAGE OverloadedStrings #-}

-- | Names of sites: how they are written, and that the table finds what comparing each name finds.
module HostsTest (tests) where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (toUpper)
import Data.Either (isLeft)
import Data.List (sortOn)
import Data.Ord (Down (..))
import Heddle.Serve.Internal
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "hosts"
    [ testCase "as users write them" written,
      testCase "what is no name" notWritten,
      testCase "exact names before wildcards, long wildcards before short ones" chosen,
      testCase "case, port, trailing dot, IPv6" spelt,
      testProperty "twin: the table finds what comparing with each name finds" twin
    ]

written :: IO ()
written = do
  parseHost "www.example.org" @?= Right (ExactHost "www.example.org")
  parseHost "WWW.Example.ORG." @?= Right (ExactHost "www.example.org")
  parseHost "*.Example.org" @?= Right (HostsBelow "example.org")
  parseHost "localhost" @?= Right (ExactHost "localhost")
  parseHost "127.0.0.1" @?= Right (ExactHost "127.0.0.1")
  parseHost "[2001:DB8::1]" @?= Right (ExactHost "[2001:db8::1]")
  forM_ ["a", "*.b.c", "[::1]"] $ \text -> fmap renderHost (parseHost text) @?= Right text

notWritten :: IO ()
notWritten =
  forM_ ["", "*", "*.", "a..b", ".a", "a.*.b", "**.a", "*a.b", "a:80", "::1", "[::1", "[]", "[zz]", "a b", "a/b", "b\252cher.example", "a\nb", replicate 64 'x', concat (replicate 130 "ab.")] $ \text ->
    assertBool text (isLeft (parseHost text))

found :: [(HostPattern, Int)] -> ByteString -> IO (Maybe Int)
found names authority = newHosts names >>= \hosts -> findHost hosts authority

chosen :: IO ()
chosen = do
  let names = [(HostsBelow "example.org", 1), (HostsBelow "b.example.org", 2), (ExactHost "a.b.example.org", 3), (ExactHost "example.org", 4), (HostsBelow "org", 5)]
      at = found names
  at "x.example.org" >>= (@?= Just 1)
  at "y.x.example.org" >>= (@?= Just 1)
  at "x.b.example.org" >>= (@?= Just 2)
  at "a.b.example.org" >>= (@?= Just 3)
  at "b.example.org" >>= (@?= Just 1)
  at "example.org" >>= (@?= Just 4)
  at "xexample.org" >>= (@?= Just 5)
  at "org" >>= (@?= Nothing)
  at ".org" >>= (@?= Nothing)
  at "example.com" >>= (@?= Nothing)
  at "" >>= (@?= Nothing)
  found [] "a" >>= (@?= Nothing)
  -- Of two equal ones the first.
  found [(ExactHost "a", 1), (ExactHost "a", 2)] "a" >>= (@?= Just 1)

spelt :: IO ()
spelt = do
  let names = [(ExactHost "www.example.org", 1), (ExactHost "[::1]", 2), (ExactHost "[2001:db8::1]", 3), (HostsBelow "example.org", 4)]
  forM_ ["www.example.org", "WWW.example.ORG", "www.example.org:8080", "www.example.org.", "www.example.org.:80", "www.example.org:"] $ \host -> found names host >>= (@?= Just 1)
  forM_ ["[::1]", "[::1]:8443"] $ \host -> found names host >>= (@?= Just 2)
  found names "[2001:DB8::1]:80" >>= (@?= Just 3)
  found names "Sub.Example.Org.:1" >>= (@?= Just 4)
  forM_ ["::1", "[::1", "[::2]", "www.example.org..", "www.example.orgx", "@www.example.org:80:90x"] $ \host -> found names host >>= (\r -> assertBool (show (host, r)) (r `notElem` [Just 1, Just 2, Just 3]))

-- Few letters, so that names meet.
newtype Name = Name ByteString
  deriving stock (Show)

instance Arbitrary Name where
  arbitrary = Name . C.intercalate "." <$> (choose (1, 4) >>= \n -> vectorOf n (elements ["a", "b", "ab", "ba", "www", "x-1"]))

newtype Authority = Authority ByteString
  deriving stock (Show)

instance Arbitrary Authority where
  arbitrary =
    frequency
      [ (8, (\(Name name) upper port dot -> Authority ((if upper then C.map toUpper name else name) <> (if dot then "." else "") <> port)) <$> arbitrary <*> arbitrary <*> elements ["", ":80", ":"] <*> arbitrary),
        (1, Authority . C.pack <$> listOf (elements "ab.:[]A@ \255")),
        (1, Authority <$> elements ["[::1]", "[::1]:80", "[::A]", "[", "]", ".", ":", ".:", "[a.b]"])
      ]

twin :: [(Name, Bool)] -> Authority -> Property
twin given (Authority authority) = ioProperty $ do
  let names = zip [if wild then HostsBelow n else ExactHost n | (Name n, wild) <- given] [0 :: Int ..]
      name = normalHost authority
      exact = [i | (ExactHost n, i) <- names, n == name]
      below = map snd (sortOn (Down . fst) [((B.length n, Down i), i) | (p@(HostsBelow n), i) <- names, hostMatches p name])
      expected = case exact ++ below of
        i : _ -> Just i
        [] -> Nothing
  r <- found names authority
  pure (counterexample (show name) (r === expected))
