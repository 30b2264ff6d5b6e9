-- | A small part of POSIX's extended regular expressions: as data, as text, and what they
-- match, in the most obvious way. To compare with the C library's.
module FilterRegex
  ( Rx (..),
    printRx,
    readRx,
    Alphabet (..),
    matchesOf,
  )
where

import Data.ByteString.Char8 qualified as Char8
import Data.List (nub)
import Data.Word (Word8)

-- | An expression.
data Rx
  = Byte Word8
  | Dot
  | -- | One of these; if 'False', one of the others.
    OneOf Bool [Word8]
  | Empty
  | Rx :. Rx
  | Rx :| Rx
  | Star Rx
  | Plus Rx
  | Maybe Rx
  | Start
  | End
  deriving stock (Eq, Show)

infixr 6 :.

infixr 5 :|

-- | As text. Only letters, digits and blanks stand for themselves.
printRx :: Rx -> Char8.ByteString
printRx = Char8.pack . alternatives
  where
    alternatives = \case
      a :| b -> chain a ++ "|" ++ alternatives b
      a -> chain a
    chain = \case
      a :. b -> chainLeft a ++ chain b
      Empty -> "()"
      a -> repeated a
    chainLeft a@(_ :. _) = "(" ++ alternatives a ++ ")"
    chainLeft a = chain a
    repeated = \case
      Star a -> atom a ++ "*"
      Plus a -> atom a ++ "+"
      Maybe a -> atom a ++ "?"
      a -> atom a
    atom = \case
      Byte b -> [toEnum (fromIntegral b)]
      Dot -> "."
      OneOf yes bs -> "[" ++ (if yes then "" else "^") ++ map (toEnum . fromIntegral) bs ++ "]"
      Start -> "^"
      End -> "$"
      a -> "(" ++ alternatives a ++ ")"

-- | The same from text, as far as 'printRx' writes it.
readRx :: Char8.ByteString -> Rx
readRx text = case alternatives (Char8.unpack text) of
  (rx, "") -> rx
  (_, rest) -> error ("FilterRegex: cannot read " ++ show rest)
  where
    alternatives t = case chain t of
      (a, '|' : rest) -> let (b, rest') = alternatives rest in (a :| b, rest')
      found -> found
    chain t
      | null t || head t `elem` "|)" = (Empty, t)
      | otherwise = case repeated t of
        (a, rest)
          | null rest || head rest `elem` "|)" -> (a, rest)
          | otherwise -> let (b, rest') = chain rest in (a :. b, rest')
    repeated t = let (a, rest) = atom t in again a rest
    again a = \case
      '*' : rest -> again (Star a) rest
      '+' : rest -> again (Plus a) rest
      '?' : rest -> again (Maybe a) rest
      rest -> (a, rest)
    atom = \case
      '(' : rest -> case alternatives rest of
        (a, ')' : rest') -> (a, rest')
        _ -> error "FilterRegex: a parenthesis is open"
      '[' : '^' : rest -> set False rest
      '[' : rest -> set True rest
      '.' : rest -> (Dot, rest)
      '^' : rest -> (Start, rest)
      '$' : rest -> (End, rest)
      c : rest -> (Byte (byteOf c), rest)
      [] -> (Empty, [])
    set yes t = let (members, rest) = break (== ']') t in (OneOf yes (map byteOf members), drop 1 rest)
    byteOf = fromIntegral . fromEnum

-- | What a dot takes, what a set of all but some takes beyond those, and what case is.
data Alphabet = Alphabet
  { dotTakes :: Word8 -> Bool,
    othersTake :: Word8 -> Bool,
    folded :: Word8 -> Word8
  }

-- | The matches in a row, from the left, each the longest where it begins, without overlaps,
-- and none that is empty right after another: where they begin and end.
matchesOf :: Alphabet -> Rx -> [Word8] -> [(Int, Int)]
matchesOf alphabet rx row = go 0 (-1)
  where
    size = length row
    at i = folded alphabet (row !! i)
    go from behind
      | from > size = []
      | otherwise = case ends rx from of
        [] -> go (from + 1) behind
        found
          | longest > from -> (from, longest) : go longest longest
          | from == behind -> go (from + 1) behind
          | otherwise -> (from, from) : go (from + 1) from
          where
            longest = maximum found
    -- Where it can end if it begins here.
    ends expression i = case expression of
      Byte b -> one (\c -> c == folded alphabet b)
      Dot -> [i + 1 | i < size, dotTakes alphabet (row !! i)]
      OneOf True bs -> one (`elem` map (folded alphabet) bs)
      OneOf False bs -> [i + 1 | i < size, othersTake alphabet (row !! i), at i `notElem` map (folded alphabet) bs]
      Empty -> [i]
      a :. b -> nub (concatMap (ends b) (ends a i))
      a :| b -> nub (ends a i ++ ends b i)
      Star a -> closure a [] [i]
      Plus a -> nub (concatMap (\j -> closure a [] [j]) (ends a i))
      Maybe a -> nub (i : ends a i)
      Start -> [i | i == 0]
      End -> [i | i == size]
      where
        one p = [i + 1 | i < size, p (at i)]
    closure a seen = \case
      [] -> seen
      j : js
        | j `elem` seen -> closure a seen js
        | otherwise -> closure a (j : seen) (ends a j ++ js)
