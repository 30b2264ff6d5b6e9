{-# LANGUAGE OverloadedStrings #-}

-- | Random components, and streams for them.
module FilterGen
  ( -- * Streams
    streams,
    shrinkStream,

    -- * Regular expressions
    alphabet,
    patterns,

    -- * Components
    splitters,
    rowSplitters,
    byteSets,
    texts,
    stages,
    promptStages,
    shrinkSplitter,
    shrinkStage,
  )
where

import Control.Monad (filterM)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.Word (Word8)
import FilterRegex
import Heddle.Filter
import System.IO.Unsafe (unsafePerformIO)
import Test.QuickCheck
import Test.QuickCheck.Gen (unGen)
import Test.QuickCheck.Random (mkQCGen)

-- Streams --------------------------------------------------------------------

-- | Empty lines, no final newline, NULs, bytes that are no characters; most are short.
streams :: Gen ByteString
streams = do
  size <- frequency [(1, pure 0), (3, chooseInt (1, 6)), (8, chooseInt (5, 40)), (2, chooseInt (40, 160))]
  Bytes.pack <$> vectorOf size bytes

bytes :: Gen Word8
bytes =
  frequency
    [ (7, pure 10),
      (6, pure 97),
      (5, pure 98),
      (2, elements [65, 66]),
      (3, pure 32),
      (1, pure 9),
      (2, elements [48, 49, 50]),
      (1, elements [0, 0xff, 0xc3])
    ]

shrinkStream :: ByteString -> [ByteString]
shrinkStream = map Bytes.pack . shrinkList (\b -> [97 | b /= 97, b /= 10]) . Bytes.unpack

-- Regular expressions --------------------------------------------------------

-- | A regular expression's complement and dot take what the C library's locale says.
alphabet :: Alphabet
alphabet = Alphabet (takenBy "^.$") (takenBy "^[^~]$") id

takenBy :: ByteString -> Word8 -> Bool
takenBy text = (`elem` taken)
  where
    taken = unsafePerformIO $ do
      p <- newPattern CaseMatters text >>= either fail pure
      let matched b = (== "1\n") <$> (bytesSource "probe" [] (Bytes.singleton b) >>= \source -> runBytes (uncompiled (Count (Matching p))) [source])
      filterM matched [0 .. 255]
{-# NOINLINE takenBy #-}

-- | Some of a fixed selection, which are compiled once.
patterns :: Gen Pattern
patterns = elements selection

selection :: [Pattern]
selection = unsafePerformIO $ do
  let random = unGen (vectorOf 400 expressions) (mkQCGen 20110711) 30
      fixed = ["", "^$", "^", "$", "a*", "a+b", "ab|ba", "^a", "b$", "a.b", "[^a]", "ab", "aa", "(a|ab)(b|ba)", "x*y?", " +", "[ab]*1?"]
      rules = cycle [CaseMatters, CaseMatters, IgnoreAsciiCase]
  mapM (\(rule, text) -> newPattern rule text >>= either (fail . (show text ++)) pure) (zip rules (fixed ++ map printRx random))
{-# NOINLINE selection #-}

-- Anchors are at the ends only: elsewhere, the C library's matchers differ.
expressions :: Gen Rx
expressions = do
  inner <- chooseInt (0, 6) >>= expression
  start <- frequency [(5, pure id), (1, pure (Start :.))]
  end <- frequency [(5, pure id), (1, pure (:. End))]
  pure (start (end inner))

expression :: Int -> Gen Rx
expression size
  | size <= 0 = frequency [(8, Byte <$> elements [97, 98, 98, 65, 32, 49]), (2, pure Dot), (2, set), (1, pure Empty)]
  | otherwise =
    oneof
      [ expression 0,
        (:.) <$> smaller 2 <*> smaller 2,
        (:.) <$> smaller 2 <*> smaller 2,
        (:|) <$> smaller 2 <*> smaller 2,
        Star <$> smaller 1,
        Plus <$> smaller 1,
        Maybe <$> smaller 1
      ]
  where
    smaller n = expression ((size - 1) `div` n)
    set = OneOf <$> arbitrary <*> (take 2 <$> shuffle [97, 98, 65, 48, 32])

-- Components -----------------------------------------------------------------

byteSets :: Gen ByteSet
byteSets = elements (namedSets ++ [byteSetFrom "bytes \"ab\"" "ab", byteSetFrom "bytes \"\\nb\"" "\nb", byteSetFrom "bytes \"\"" ""])

texts :: Gen ByteString
texts =
  frequency
    [ (6, elements ["a", "b", "ab", "aa", "aba", "aab", "A", "bB", "1", " ", "b b"]),
      (2, elements ["\n", "a\n", "\na", "\n\n", "\0", "\xff", "\xc3\xff"]),
      (1, pure ""),
      (1, Bytes.pack <$> resize 3 (listOf bytes))
    ]

splitters :: Int -> Gen Splitter
splitters size
  | size <= 0 =
    frequency
      [ (3, pure Row),
        (2, pure Line),
        (2, Runs <$> byteSets),
        (3, Substring <$> elements [CaseMatters, CaseMatters, IgnoreAsciiCase] <*> texts),
        (2, Matching <$> patterns)
      ]
  | otherwise =
    frequency
      [ (3, splitters 0),
        (2, Not <$> smaller 1),
        (2, And <$> smaller 2 <*> smaller 2),
        (2, Or <$> smaller 2 <*> smaller 2),
        (3, Having <$> smaller 2 <*> smaller 2),
        (2, HavingOnly <$> smaller 2 <*> smaller 2),
        (2, FollowedBy <$> smaller 2 <*> smaller 2),
        (2, First <$> chooseInt (0, 3) <*> smaller 1),
        (2, Last <$> chooseInt (0, 3) <*> smaller 1),
        (1, Prefix <$> smaller 1),
        (1, Suffix <$> smaller 1),
        (2, Between <$> smaller 2 <*> smaller 2)
      ]
  where
    smaller n = splitters ((size - 1) `div` n)

-- | Whose sections are rows, each true or false as it is.
rowSplitters :: Int -> Gen Splitter
rowSplitters size
  | size <= 0 = frequency [(1, pure Row), (4, Having Row <$> splitters 0), (1, HavingOnly Row <$> splitters 0)]
  | otherwise =
    oneof
      [ rowSplitters 0,
        Not <$> smaller 1,
        And <$> smaller 2 <*> smaller 2,
        Or <$> smaller 2 <*> smaller 2,
        Having <$> smaller 2 <*> splitters (size `div` 2),
        HavingOnly <$> smaller 2 <*> splitters (size `div` 2)
      ]
  where
    smaller n = rowSplitters ((size - 1) `div` n)

promptSplitters :: Gen Splitter
promptSplitters = frequency [(3, pure Row), (2, pure Line), (2, Runs <$> byteSets), (1, Not <$> promptSplitters)]

-- | Stages whose output does not depend on when a component passes on what it holds back. 'Number' is
-- only where the language has it: inside a 'ForEach'.
stages :: Int -> Gen Stage
stages = stagesIn False

-- | Stages that hold nothing back before the end.
promptStages :: Int -> Gen Stage
promptStages = promptIn False

stagesIn :: Bool -> Int -> Gen Stage
stagesIn inEach size
  | size <= 0 =
    frequency
      [ (4, simple inEach),
        (1, Count <$> splitters 1),
        (2, fields)
      ]
  | otherwise =
    frequency
      [ (2, stagesIn inEach 0),
        (4, (:>) <$> smaller 2 <*> smaller 2),
        (1, (:||) <$> smaller 2 <*> smaller 2),
        (3, select <$> conditions),
        (2, If <$> conditions <*> promptIn inEach (size `div` 2) <*> promptIn inEach (size `div` 2)),
        (1, (\s a -> If s a Suppress) <$> conditions <*> smaller 2),
        (1, (`If` Suppress) <$> conditions <*> smaller 2),
        (5, ForEach <$> conditions <*> stagesIn True (size `div` 2) <*> stagesIn True (size `div` 2)),
        (2, Count <$> conditions),
        (2, Join <$> joints <*> smaller 2 <*> smaller 2)
      ]
  where
    smaller n = stagesIn inEach ((size - 1) `div` n)
    conditions = splitters (min 4 size)
    select s = If s Identity Suppress

simple :: Bool -> Gen Stage
simple inEach =
  frequency $
    [ (3, pure Identity),
      (1, pure Suppress),
      (2, Translate <$> elements namedTranslations),
      (1, Prepend <$> texts),
      (1, Append <$> texts),
      (1, Instead <$> texts),
      (1, pure Numbers)
    ]
      ++ [(3, Number <$> elements [":", "", " ", "\n"]) | inEach]

promptIn :: Bool -> Int -> Gen Stage
promptIn inEach size
  | size <= 0 = frequency [(6, simple inEach), (1, Count <$> splitters 1)]
  | otherwise =
    frequency
      [ (3, promptIn inEach 0),
        (2, (:>) <$> smaller inEach <*> smaller inEach),
        (2, If <$> promptSplitters <*> smaller inEach <*> smaller inEach),
        (2, ForEach <$> promptSplitters <*> smaller True <*> smaller True)
      ]
  where
    smaller inside = promptIn inside ((size - 1) `div` 2)

fields :: Gen Stage
fields = Fields <$> resize 3 (listOf1 range) <*> oneof [pure Nothing, Just <$> elements ["a", " ", "ab", "\0", "aa"]] <*> elements [" ", "", ":", "\n"]
  where
    range = do
      from <- chooseInt (1, 3)
      to <- elements [Just from, Just (from + 1), Nothing]
      pure (FieldRange from to)

joints :: Gen Joint
joints = frequency [(2, pure Appending), (2, pure Interleaving), (2, pure Zipping), (1, Flipped <$> joints)]

-- Shrinking ------------------------------------------------------------------

shrinkSplitter :: Splitter -> [Splitter]
shrinkSplitter = \case
  Row -> []
  Line -> [Row]
  Runs _ -> [Row]
  Substring rule text -> [Substring CaseMatters text | rule /= CaseMatters] ++ map (Substring rule) (shrinkStream text)
  Matching _ -> [Row]
  Not s -> one Not s
  And a b -> two And a b
  Or a b -> two Or a b
  Having a b -> two Having a b
  HavingOnly a b -> two HavingOnly a b
  FollowedBy a b -> two FollowedBy a b
  First n s -> [First (n - 1) s | n > 0] ++ one (First n) s
  Last n s -> [Last (n - 1) s | n > 0] ++ one (Last n) s
  Prefix s -> one Prefix s
  Suffix s -> one Suffix s
  Between a b -> two Between a b
  where
    one make s = s : map make (shrinkSplitter s)
    two make a b = [a, b] ++ map (`make` b) (shrinkSplitter a) ++ map (make a) (shrinkSplitter b)

-- | Parts of prompt stages are prompt, and so are smaller splitters.
shrinkStage :: Stage -> [Stage]
shrinkStage = \case
  Identity -> []
  Suppress -> []
  a :> b -> two (:>) a b
  a :|| b -> (a :> b) : two (:||) a b
  If s a b -> [a, b] ++ map (\s' -> If s' a b) (shrinkSplitter s) ++ smallerTwo (If s) a b
  ForEach s a b -> [a, b] ++ map (\s' -> ForEach s' a b) (shrinkSplitter s) ++ smallerTwo (ForEach s) a b
  Count s -> map Count (shrinkSplitter s)
  Join (Flipped joint) a b -> Join joint b a : two (Join (Flipped joint)) a b
  Join joint a b -> two (Join joint) a b
  Fields (_ : rs) separator with -> [Fields rs separator with | not (null rs)] ++ [Identity]
  _ -> [Identity]
  where
    two make a b = [a, b] ++ smallerTwo make a b
    smallerTwo make a b = map (`make` b) (shrinkStage a) ++ map (make a) (shrinkStage b)
