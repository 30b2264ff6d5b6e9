-- |
-- Module      : Heddle.OpenFlow.Text.Words
-- Description : Numbers, ports and addresses in the syntax of ovs-ofctl
-- Stability   : hidden
--
-- The words of "Heddle.OpenFlow.Text", read and written.
--
-- Cost: O(characters), through 'String'.
module Heddle.OpenFlow.Text.Words
  ( -- * Reading
    pieces,
    trim,
    number,
    integer,
    port,
    ipv4Of,
    ipv6Of,
    prefixMask,

    -- * Writing
    renderPort,
    dotted,
    colons,
    hex,
    hexBytes,
  )
where

import Data.Bits (complement, shiftL, shiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Char (isDigit, isHexDigit, isSpace, toLower)
import Data.List (dropWhileEnd, intercalate)
import Data.Word (Word32)
import Heddle.OpenFlow.Types
import Numeric (readHex, showHex)

-- | Parts between commas and spaces, with brackets respected.
pieces :: String -> [String]
pieces = filter (not . null) . map trim . go (0 :: Int) ""
  where
    go depth acc = \case
      [] -> [reverse acc]
      c : rest
        | depth == 0 && (c == ',' || isSpace c) -> reverse acc : go depth "" rest
        | c == '(' -> go (depth + 1) (c : acc) rest
        | c == ')' -> go (max 0 (depth - 1)) (c : acc) rest
        | otherwise -> go depth (c : acc) rest

-- | Without spaces at either end.
trim :: String -> String
trim = dropWhileEnd isSpace . dropWhile isSpace

-- | Decimal or 0x…; must fit.
number :: Integral a => String -> String -> Either String a
number part v = do
  n <- integer part v
  let r = fromInteger n
  if toInteger r == n && n >= 0 then Right r else Left (part ++ ": " ++ v ++ " is out of range")

-- | Decimal or 0x…; the first argument is for the error.
integer :: String -> String -> Either String Integer
integer part v = case map toLower v of
  '0' : 'x' : digits@(_ : _) | all isHexDigit digits, [(n, "")] <- readHex digits -> Right n
  digits@(_ : _) | all isDigit digits -> Right (read digits)
  _ -> Left (part ++ ": " ++ v ++ " is not a number")

-- | A port, by name or number.
port :: String -> Either String PortNo
port v = case map toLower v of
  "in_port" -> Right PortInPort
  "table" -> Right PortTable
  "normal" -> Right PortNormal
  "flood" -> Right PortFlood
  "all" -> Right PortAll
  "controller" -> Right PortController
  "local" -> Right PortLocal
  "any" -> Right PortAny
  "none" -> Right PortAny
  _ -> do
    n <- number v v :: Either String Word32
    pure (if n >= 0xff00 && n <= 0xffff then portFrom16 (fromIntegral n) else PortNo n)

-- | A port, by name or number.
renderPort :: PortNo -> String
renderPort = show

-- | The mask of this many bits with this many leading ones.
prefixMask :: Int -> Int -> Integer
prefixMask bits k = (1 `shiftL` bits - 1) .&. complement (1 `shiftL` (bits - k) - 1)

-- | Four numbers below 256.
ipv4Of :: String -> Maybe Integer
ipv4Of = go (0 :: Int) 0
  where
    go n acc s = case span isDigit s of
      (digits@(_ : _), rest)
        | length digits <= 3,
          d <- read digits,
          d < 256 ->
          let acc' = acc * 256 + d
           in case rest of
                "" | n == 3 -> Just acc'
                '.' : more | n < 3 -> go (n + 1) acc' more
                _ -> Nothing
      _ -> Nothing

-- | Eight groups, or fewer around @::@; the last two may be an address of IPv4.
ipv6Of :: String -> Maybe Integer
ipv6Of s = case splitDouble s of
  Just (front, back) -> do
    a <- groups front
    b <- groups back
    if length a + length b < 8 then Just (join' (a ++ replicate (8 - length a - length b) 0 ++ b)) else Nothing
  Nothing -> groups s >>= \a -> if length a == 8 then Just (join' a) else Nothing
  where
    join' = foldl (\n g -> n `shiftL` 16 .|. g) 0
    splitDouble = go ""
      where
        go acc = \case
          ':' : ':' : rest -> Just (reverse acc, rest)
          c : rest -> go (c : acc) rest
          [] -> Nothing
    groups "" = Just []
    groups t = case break (== ':') t of
      (g, rest)
        | '.' `elem` g, null rest, Just n <- ipv4Of g -> Just [n `shiftR` 16, n .&. 0xffff]
        | not (null g) && length g <= 4 && all isHexDigit g,
          [(n, "")] <- readHex g -> case rest of
          "" -> Just [n]
          _ : "" -> Nothing
          _ : more -> (n :) <$> groups more
      _ -> Nothing

-- | An address of IPv4.
dotted :: Integer -> String
dotted n = intercalate "." [show ((n `shiftR` s) .&. 255) | s <- [24, 16, 8, 0]]

-- | An address of IPv6, by RFC 5952: the longest run of zeros, of two groups at least, is left out.
colons :: Integer -> String
colons n = case longest of
  Just (start, len) -> text (take start groups) ++ "::" ++ text (drop (start + len) groups)
  Nothing -> text groups
  where
    groups = [(n `shiftR` s) .&. 0xffff | s <- [112, 96 .. 0]]
    text = intercalate ":" . map (`showHex` "")
    runs = [(i, len) | i <- [0 .. 7], let len = length (takeWhile (== 0) (drop i groups)), len >= 2]
    longest = foldl (\best r -> case best of Just b | snd b >= snd r -> best; _ -> Just r) Nothing runs

-- | A number with its @0x@.
hex :: (Integral a, Show a) => a -> String
hex n = "0x" ++ showHex n ""

-- | Two digits for each byte.
hexBytes :: ByteString -> String
hexBytes = concatMap (\b -> (if b < 16 then "0" else "") ++ showHex b "") . B.unpack
