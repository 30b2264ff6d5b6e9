{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.HostName
-- Description : The names of sites
-- Stability   : stable
--
-- A site has names such as @www.example.org@, and names with a wildcard for one or more labels at their beginning, such as
-- @*.example.org@. Names are compared without regard to case, port and trailing dot.
--
-- Cost: see each function.
-- Owner: values.
module Heddle.Serve.HostName
  ( -- * As users write them
    HostPattern (..),
    parseHost,
    renderHost,

    -- * As clients write them
    normalHost,
    hostMatches,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isAlphaNum, isAscii, isHexDigit, toLower)

-- | A name, in lower case, without port and trailing dot; an IPv6 address in brackets.
data HostPattern
  = -- | This name.
    ExactHost !ByteString
  | -- | Every name that ends in a dot and this one.
    HostsBelow !ByteString
  deriving stock (Eq, Ord, Show)

-- | Read a name.
--
-- >>> map parseHost ["WWW.Example.org.", "*.example.org", "[::1]"]
-- [Right (ExactHost "www.example.org"),Right (HostsBelow "example.org"),Right (ExactHost "[::1]")]
--
-- >>> parseHost "www.*.org"
-- Left "'www.*.org' is not a host's name; '*' can only be its first part, as in *.example.org"
parseHost :: String -> Either String HostPattern
parseHost text
  | not (all isAscii text) = wrong "write a name with other letters than ASCII's in its encoded form (xn--)"
  | '[' : inside <- text, (address, "]") <- break (== ']') inside = if length address >= 2 && all (\c -> isHexDigit c || c `elem` (":." :: String)) address then Right (ExactHost (lowered text)) else wrong "an IPv6 address stands in its brackets"
  | '*' : '.' : rest <- text = if plainName rest then Right (HostsBelow (lowered rest)) else wrong star
  | '*' `elem` text = wrong star
  | ':' `elem` text = wrong "leave out the port; a site has its names on all addresses"
  | plainName text = Right (ExactHost (lowered text))
  | otherwise = wrong "it has letters, digits, hyphens and dots"
  where
    wrong why = Left ("'" ++ text ++ "' is not a host's name; " ++ why)
    star = "'*' can only be its first part, as in *.example.org"
    lowered = normalHost . C.pack
    plainName name = let labels = splitDots (withoutDot name) in not (null name) && length name <= 253 && all label labels
    label l = not (null l) && length l <= 63 && all (\c -> isAlphaNum c || c `elem` ("-_" :: String)) l
    withoutDot name = case reverse name of '.' : rest@(_ : _) -> reverse rest; _ -> name
    splitDots s = case break (== '.') s of
      (one, _ : rest) -> one : splitDots rest
      (one, "") -> [one]

-- | As 'parseHost' reads it.
renderHost :: HostPattern -> String
renderHost = \case
  ExactHost name -> C.unpack name
  HostsBelow name -> "*." ++ C.unpack name

-- | The host of an authority, in lower case, without port and trailing dot; an IPv6 address keeps its brackets.
--
-- >>> map normalHost ["Example.ORG.:8080", "[::1]:80", "localhost"]
-- ["example.org","[::1]","localhost"]
--
-- [Cost]: O(length).
normalHost :: ByteString -> ByteString
normalHost authority = C.map toLower $ case C.uncons authority of
  Just ('[', _) -> let (inside, rest) = C.break (== ']') authority in inside <> B.take 1 rest
  _ -> let name = C.takeWhile (/= ':') authority in if B.length name > 1 && C.last name == '.' then B.init name else name

-- | Test whether a pattern is for a normal host; what 'Heddle.Serve.Hosts.findHost' finds faster.
--
-- [Cost]: O(length).
hostMatches :: HostPattern -> ByteString -> Bool
hostMatches pattern' name = case pattern' of
  ExactHost exact -> exact == name
  HostsBelow suffix -> ("." <> suffix) `B.isSuffixOf` name && B.length name > B.length suffix + 1
