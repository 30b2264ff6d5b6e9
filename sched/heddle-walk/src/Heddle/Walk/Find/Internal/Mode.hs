{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Walk.Find.Internal.Mode
-- Description : Permission bits in chmod's notation
-- Stability   : internal, exempt from the version policy
--
-- Reads octal and symbolic modes as @-perm@ means them: applied to no permissions at
-- all, without a umask.
--
-- Cost: O(n). Owner: values.
module Heddle.Walk.Find.Internal.Mode
  ( Mode,
    parseMode,
    renderMode,
    typeLetter,
  )
where

import Data.Bits (complement, shiftR, testBit, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.Char (isOctDigit, ord)
import Data.Word (Word32)

-- | Permission bits, 0 to 07777, and in a stat record the type above them.
type Mode = Word32

-- | The bits a text means for files and for directories; they differ by @X@ and @s@.
--
-- [Cost]: O(n).
parseMode :: ByteString -> Maybe (Mode, Mode)
parseMode text = case Char8.unpack text of
  digits@(c : _)
    | isOctDigit c ->
      if all isOctDigit digits && octal digits <= 0o7777
        then Just (octal digits, octal digits)
        else Nothing
  "" -> Nothing
  symbols -> do
    changes <- clauses symbols
    Just (foldl (apply False) 0 changes, foldl (apply True) 0 changes)

-- Saturates above every valid mode.
octal :: String -> Mode
octal = foldl (\n d -> min 0o10000 (n * 8 + fromIntegral (ord d - ord '0'))) 0

data Operator = Add | Remove | Set

data Value
  = Plain Mode
  | -- | Execute for directories, and where anybody may already execute.
    Conditional Mode
  | -- | The permissions of this class.
    Copy Mode

-- | Whose permissions it affects (0: everyone's), what is done, with what, and the special bits named.
data Change = Change Mode Operator Value Mode

clauses :: String -> Maybe [Change]
clauses text = do
  let (who, rest) = span (`elem` "ugoa") text
      affected = foldr ((.|.) . classBits) 0 who
  (changes, left) <- operations affected rest
  case left of
    "" -> Just changes
    ',' : more -> (changes ++) <$> clauses more
    _ -> Nothing

operations :: Mode -> String -> Maybe ([Change], String)
operations affected (c : rest) | Just operator <- operatorOf c = do
  (value, mentioned, left) <- operand rest
  let change = Change affected operator value mentioned
  case left of
    d : _ | d `elem` "+-=" -> do
      (more, end) <- operations affected left
      Just (change : more, end)
    _ -> Just ([change], left)
  where
    operand digits@(d : _)
      | isOctDigit d =
        let (number, left) = span isOctDigit digits
            value = octal number
         in if affected == 0 && value <= 0o7777 && (null left || take 1 left == ",")
              then Just (Plain value, 0o7777, left)
              else Nothing
    operand (d : left)
      | d `elem` "ugo" = Just (Copy (classBits d .&. 0o777), 0, left)
    operand flags =
      let (given, left) = span (`elem` "rwxXst") flags
          bits = foldr ((.|.) . flagBits) 0 given
          named = (if affected == 0 then complement 0 else affected) .&. bits
       in Just (if 'X' `elem` given then Conditional bits else Plain bits, named, left)
operations _ _ = Nothing

operatorOf :: Char -> Maybe Operator
operatorOf = \case
  '+' -> Just Add
  '-' -> Just Remove
  '=' -> Just Set
  _ -> Nothing

classBits, flagBits :: Char -> Mode
classBits = \case
  'u' -> 0o4700
  'g' -> 0o2070
  'o' -> 0o1007
  _ -> 0o7777
flagBits = \case
  'r' -> 0o444
  'w' -> 0o222
  'x' -> 0o111
  's' -> 0o6000
  't' -> 0o1000
  _ -> 0

apply :: Bool -> Mode -> Change -> Mode
apply directory old (Change affected operator value mentioned) = case operator of
  Add -> old .|. bits
  Remove -> old .&. complement bits
  Set -> (old .&. preserved) .|. bits
  where
    -- A directory keeps the special bits that are not named.
    omitted = (if directory then 0o6000 else 0) .&. complement mentioned
    bits = (if affected == 0 then wanted else wanted .&. affected) .&. complement omitted
    preserved = (if affected == 0 then 0 else complement affected) .|. omitted
    wanted = case value of
      Plain m -> m
      Conditional m -> if directory || old .&. 0o111 /= 0 then m .|. 0o111 else m
      Copy from ->
        let own = old .&. from
            when' bit' mask = if own .&. bit' /= 0 then mask else 0
         in when' 0o444 0o444 .|. when' 0o222 0o222 .|. when' 0o111 0o111

-- | Ten letters, as @ls -l@ begins its lines: @drwxr-xr-x@.
renderMode :: Mode -> ByteString
renderMode mode =
  Char8.pack
    [ listLetter (typeLetter mode),
      bit' 8 'r',
      bit' 7 'w',
      special 11 6 's' 'S',
      bit' 5 'r',
      bit' 4 'w',
      special 10 3 's' 'S',
      bit' 2 'r',
      bit' 1 'w',
      special 9 0 't' 'T'
    ]
  where
    listLetter = \case 'f' -> '-'; 'U' -> '?'; c -> c
    bit' i c = if testBit mode i then c else '-'
    special i x set only
      | testBit mode i = if testBit mode x then set else only
      | otherwise = bit' x 'x'

-- | The letter of @-type@ for a mode's file type; @U@ when there is none.
typeLetter :: Mode -> Char
typeLetter mode = case (mode `shiftR` 12) .&. 15 of
  1 -> 'p'
  2 -> 'c'
  4 -> 'd'
  6 -> 'b'
  8 -> 'f'
  10 -> 'l'
  12 -> 's'
  _ -> 'U'
