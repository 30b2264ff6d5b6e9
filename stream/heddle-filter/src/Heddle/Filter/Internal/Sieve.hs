-- |
-- Module      : Heddle.Filter.Internal.Sieve
-- Description : Sequences of bytes of which every match of a regular expression contains one
-- Stability   : internal, exempt from the version policy
--
-- For expressions without a text that every match has, such as @[0-9]{5}[a-z.]+@: a sequence of sets of bytes that stand one
-- after the other in every match, here five digits and one of the others. Several alternatives are several sequences. A block of
-- rows is searched for all of them at once (Shift-And), and only the rows that have one go to the matcher. Where the expression is
-- no more than such a sequence, not even these do.
--
-- Only ASCII is looked at. A row with another byte, or with a NUL, goes to the matcher, which knows the locale.
--
-- Cost: making one, linear in the expression; searching, about a nanosecond for each byte.
-- Owner: values.
module Heddle.Filter.Internal.Sieve
  ( Sieve,
    newSieve,
    Candidate (..),
    nextCandidate,
  )
where

import Data.Bifunctor (first)
import Data.Bits (complement, popCount, setBit, shiftL, shiftR, testBit, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Internal (create)
import Data.ByteString.Unsafe qualified as Bytes
import Data.Char (isAlphaNum, isAscii, isDigit)
import Data.Foldable (for_)
import Data.Int (Int64)
import Data.List (foldl', isInfixOf, maximumBy)
import Data.Ord (comparing)
import Data.Word (Word64, Word8)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Array (allocaArray)
import Foreign.Ptr (Ptr, castPtr)
import Foreign.Storable (peekElemOff, pokeElemOff)
import Heddle.Bytes.Search (CaseRule (..))
import Heddle.Filter.Internal.Required (skipSet)

-- | Finds the sequences.
data Sieve = Sieve
  { -- The places of each byte; where sequences begin, where they end.
    sieveMasks :: !ByteString,
    sieveFirst :: !Word64,
    sieveLast :: !Word64,
    -- Is whatever has a sequence a match?
    sieveExact :: !Bool
  }

-- | A row that may match.
data Candidate
  = None
  | -- | Does it match for certain? The offsets of the row and of the next one, and how many rows were passed over.
    Candidate !Bool !Int !Int !Int

-- | The sieve of an expression, if there is one that is worth while.
newSieve :: CaseRule -> ByteString -> IO (Maybe Sieve)
newSieve rule text = do
  plain <- c_plain
  case if plain /= 0 then sequencesOf rule (Char8.unpack text) else Nothing of
    Nothing -> pure Nothing
    Just (exact, sequences) -> do
      let places = concatMap (\s -> zip3 s (True : repeat False) (replicate (length s - 1) False ++ [True])) sequences
          numbered = zip [0 ..] places
          bits p = foldl' (\mask (i, place) -> if p place then setBit mask i else mask) (bit63 :: Word64) numbered
          maskOf b
            | b == 0 || b >= 128 = bit63
            | b == 10 = 0
            | otherwise = foldl' (\mask (i, (set, _, _)) -> if testBit set b then setBit mask i else mask) 0 numbered
      masks <- create 2048 $ \p -> for_ [0 .. 255] (\b -> pokeElemOff (castPtr p) b (maskOf b))
      pure (Just (Sieve masks (bits (\(_, begins, _) -> begins)) (bits (\(_, _, ends) -> ends)) exact))
  where
    bit63 = 1 `shiftL` 63

-- | @nextCandidate sieve block size from counting@: the next row that may match, of those from an offset on at which a row begins;
-- whether the rows passed over are counted.
nextCandidate :: Sieve -> Ptr Word8 -> Int -> Int -> Bool -> IO Candidate
nextCandidate sieve p size from counting = allocaArray 3 $ \out -> do
  found <- Bytes.unsafeUseAsCString (sieveMasks sieve) $ \masks ->
    c_next (castPtr masks) (sieveFirst sieve) (sieveLast sieve) p size from (fromIntegral (fromEnum counting)) out
  if found == 0
    then pure None
    else do
      start <- peekElemOff out 0
      next <- peekElemOff out 1
      passed <- peekElemOff out 2
      pure (Candidate (found == 2 && sieveExact sieve) (fromIntegral start) (fromIntegral next) (fromIntegral passed))

-- Expressions ----------------------------------------------------------------

-- A set of ASCII bytes.
type Set = Integer

data Element
  = -- At least and at most this many bytes of a set.
    Repeated !Set !Int !(Maybe Int)
  | -- Anything.
    Gap

-- The sequences, and whether a row that has one matches.
sequencesOf :: CaseRule -> String -> Maybe (Bool, [[Set]])
sequencesOf rule text = do
  (branches, rest) <- alternatives text
  if null rest && '\n' `notElem` text then Just () else Nothing
  found <- mapM sequenceOf branches
  let exact = all fst found && rule == CaseMatters
      sequences = map (map folded . snd) found
  if sum (map length sequences) <= 60 && (exact || minimum (map worth sequences) >= 6) then Just (exact, sequences) else Nothing
  where
    folded set = case rule of
      CaseMatters -> set
      IgnoreAsciiCase -> set .|. ((set .&. capitals) `shiftL` 32) .|. ((set .&. small) `shiftR` 32)
    capitals = setOf ['A' .. 'Z']
    small = setOf ['a' .. 'z']

-- How many bits a sequence tells.
worth :: [Set] -> Double
worth sets = sum [7 - logBase 2 (fromIntegral (max 1 (popCount set))) | set <- sets]

-- The sequence of one alternative, and whether a match is no more than that.
sequenceOf :: [Element] -> Maybe (Bool, [Set])
sequenceOf elements
  | any gap trimmed || any varies trimmed = inexact
  | length whole > 30 = Just (False, take 30 whole)
  | null whole = Nothing
  | otherwise = Just (True, whole)
  where
    -- A match exists if one exists with as little as possible at both ends.
    trimmed = leastAtEnd (leastAtEnd elements)
    leastAtEnd es = case dropWhile missing (reverse es) of
      Repeated set least _ : others -> Repeated set least (Just least) : others
      others -> others
    whole = concatMap (\case Repeated set least _ -> replicate (min 64 least) set; Gap -> []) trimmed
    missing = \case
      Repeated _ 0 _ -> True
      _ -> False
    gap = \case
      Gap -> True
      _ -> False
    varies = \case
      Repeated _ least most -> Just least /= most
      Gap -> False
    inexact = case filter (not . null) (runs [] trimmed) of
      [] -> Nothing
      found -> Just (False, maximumBy (comparing worth) (map (take 20) found))
    -- What stands next to each other in every match.
    runs run = \case
      [] -> [run]
      Gap : others -> run : runs [] others
      Repeated set least most : others
        | Just least == most -> runs (run ++ here) others
        | otherwise -> (run ++ here) : runs here others
        where
          here = replicate (min 64 least) set

-- Alternatives up to the end or the closing parenthesis, if all of it is understood.
alternatives :: String -> Maybe ([[Element]], String)
alternatives text = do
  (elements, rest) <- branch text
  case rest of
    '|' : more -> first (elements :) <$> alternatives more
    _ -> Just ([elements], rest)

branch :: String -> Maybe ([Element], String)
branch text
  | null text || take 1 text `elem` ["|", ")"] = Just ([], text)
  | otherwise = do
    (atoms, rest) <- atom text
    (least, most, after) <- repeats (1, Just 1) rest
    let here = case atoms of
          [Repeated set 1 (Just 1)] -> [Repeated set least most]
          _ | (least, most) == (1, Just 1) -> atoms
          _ -> [Gap]
    (others, end) <- branch after
    pure (here ++ others, end)

atom :: String -> Maybe ([Element], String)
atom = \case
  '\\' : c : rest
    | isAlphaNum c || c `elem` "<>`'" || not (isAscii c) -> Just ([Gap], rest)
    | otherwise -> Just ([one [c]], rest)
  '[' : rest -> let after = skipSet rest in Just ([maybe Gap (\set -> Repeated set 1 (Just 1)) (bracket (take (length rest - length after - 1) rest))], after)
  '(' : rest ->
    alternatives rest >>= \case
      ([elements], ')' : after) -> Just (elements, after)
      (_, ')' : after) -> Just ([Gap], after)
      _ -> Nothing
  '.' : rest -> Just ([Repeated everything 1 (Just 1)], rest)
  c : rest
    | c `elem` "*+?{" -> Nothing
    | c `elem` "^$]}" || not (isAscii c) -> Just ([Gap], rest)
    | otherwise -> Just ([one [c]], rest)
  [] -> Nothing
  where
    one cs = Repeated (setOf cs) 1 (Just 1)

-- The repetitions that follow.
repeats :: (Int, Maybe Int) -> String -> Maybe (Int, Maybe Int, String)
repeats (least, most) = \case
  '*' : rest -> repeats (0, Nothing) rest
  '+' : rest -> repeats (least, Nothing) rest
  '?' : rest -> repeats (0, if most == Just 0 then most else Nothing) rest
  '{' : rest -> do
    let (digits, after) = span isDigit rest
    low <- if null digits || length digits > 4 then Nothing else Just (read digits)
    case after of
      '}' : more -> repeats (times low, if (least, most) == (1, Just 1) then Just low else Nothing) more
      ',' : more | (_, '}' : end) <- span isDigit more -> repeats (times low, Nothing) end
      _ -> Nothing
  rest -> Just (least, most, rest)
  where
    times low = min 100 (least * low)

-- What is between brackets, if it is understood.
bracket :: String -> Maybe Set
bracket inside
  | not (all isAscii inside) || "[." `isInfixOf` inside || "[=" `isInfixOf` inside = Nothing
  | '^' : members <- inside = (\set -> everything .&. complement set) <$> go True members
  | otherwise = go True inside
  where
    go beginning = \case
      [] -> if beginning then Nothing else Just 0
      '[' : ':' : rest
        | (name, ':' : ']' : after) <- break (== ':') rest -> (.|.) <$> lookup name classes <*> go False after
        | otherwise -> Nothing
      '-' : rest
        | beginning || null rest -> (.|.) (setOf "-") <$> go False rest
        | otherwise -> Nothing
      low : '-' : high : rest
        | high `elem` "[-" -> Nothing
        | otherwise -> (.|.) (setOf [low .. high]) <$> go False rest
      c : rest -> (.|.) (setOf [c]) <$> go False rest
    classes =
      [ ("digit", digits),
        ("lower", lower),
        ("upper", upper),
        ("alpha", lower .|. upper),
        ("alnum", lower .|. upper .|. digits),
        ("xdigit", digits .|. setOf "abcdefABCDEF"),
        ("blank", setOf " \t"),
        ("space", setOf " \t\n\v\f\r")
      ]
    digits = setOf ['0' .. '9']
    lower = setOf ['a' .. 'z']
    upper = setOf ['A' .. 'Z']

setOf :: String -> Set
setOf = foldl' (\set c -> setBit set (fromEnum c)) 0

everything :: Set
everything = setOf ['\1' .. '\x7f']

-- Unsafe: reads a variable.
foreign import ccall unsafe "heddle_sieve_plain" c_plain :: IO CInt

-- Unsafe: computes on the memory of a block.
foreign import ccall unsafe "heddle_sieve_next" c_next :: Ptr Word64 -> Word64 -> Word64 -> Ptr Word8 -> Int -> Int -> CInt -> Ptr Int64 -> IO CInt
