-- | Flows do what lists do: random programs, laws, lines.
module FlowModelTest (tests) where

import Control.Category qualified as Category
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef (atomicModifyIORef', newIORef)
import Data.List (find, group, mapAccumL, scanl', unfoldr)
import Data.Maybe (catMaybes, mapMaybe)
import Heddle.Flow (Flow, Sink, Source, into, run, (>->), (|>))
import Heddle.Flow qualified as Flow
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.QuickCheck

-- | A stage.
data Op
  = Add Int
  | Halve
  | NotEvery Int
  | OnlyEvery Int
  | Act Int
  | Repeat Int
  | Within [Op]
  | Take Int
  | TakeWhile Int
  | Drop Int
  | DropWhile Int
  | Sums
  | Scans
  | Differences
  | Records
  | Held
  | Number
  | Zip Int
  | Distinct
  | Runs
  deriving stock (Show)

-- | Where members come from.
data From
  = Elements [Int]
  | Range Int Int
  | Count Int Int
  | Unfold Int
  | After From From
  | Loops From From
  | Through From Op
  | Nowhere
  deriving stock (Show)

-- | What becomes of them.
data To
  = List
  | Sum
  | Length
  | Head
  | Last
  | Find Int
  | Maximum
  | Minimum
  | Any Int
  | All Int
  | Constant Int
  | Both To To
  | Into Op To
  deriving stock (Show)

data Program = Program From [Op] To
  deriving stock (Show)

instance Arbitrary Op where
  arbitrary = sized $ \n ->
    frequency $
      [(1, Within <$> resize (n `div` 3) (listOf arbitrary)) | n > 2]
        ++ [ (2, Add <$> small),
             (1, pure Halve),
             (2, NotEvery <$> choose (2, 5)),
             (1, OnlyEvery <$> choose (2, 4)),
             (1, Act <$> small),
             (1, Repeat <$> choose (0, 2)),
             (2, Take <$> lengths),
             (1, TakeWhile <$> edge),
             (1, Drop <$> lengths),
             (1, DropWhile <$> edge),
             (1, pure Sums),
             (1, pure Scans),
             (1, pure Differences),
             (1, pure Records),
             (1, pure Held),
             (1, pure Number),
             (1, Zip <$> lengths),
             (1, pure Distinct),
             (1, pure Runs)
           ]
  shrink = \case
    Within ops -> Within <$> shrink ops
    Take n -> Take <$> shrink n
    Drop n -> Drop <$> shrink n
    Repeat n -> Repeat <$> shrink n
    _ -> []

instance Arbitrary From where
  arbitrary = sized $ \n ->
    frequency $
      [ (3, Elements <$> resize 30 (listOf (choose (-9, 9)))),
        (2, (\from k -> Range from (from + k)) <$> small <*> lengths),
        (2, Count <$> small <*> lengths),
        (1, Range maxBound . (maxBound -) <$> choose (-1, 1)),
        (1, (`Range` maxBound) . (maxBound -) <$> choose (0, 70)),
        (1, Unfold <$> lengths),
        (1, pure Nowhere)
      ]
        ++ concat
          [ [ (1, After <$> resize (n `div` 2) arbitrary <*> resize (n `div` 2) arbitrary),
              (1, Loops . Elements . take 4 <$> resize 4 (listOf small) <*> resize (n `div` 4) arbitrary),
              (1, Through <$> resize (n `div` 2) arbitrary <*> resize (n `div` 2) arbitrary)
            ]
            | n > 2
          ]
  shrink = \case
    Elements xs -> Elements <$> shrink xs
    Range a b -> [Range a c | c <- shrink b] ++ [Elements [a]]
    Count a n -> Count a <$> shrink n
    Unfold n -> Unfold <$> shrink n
    After f g -> [f, g] ++ [After f' g | f' <- shrink f] ++ [After f g' | g' <- shrink g]
    Loops f g -> [f, g]
    Through f op -> f : [Through f' op | f' <- shrink f] ++ [Through f op' | op' <- shrink op]
    Nowhere -> []

instance Arbitrary To where
  arbitrary = sized $ \n ->
    frequency $
      [ (6, pure List),
        (1, pure Sum),
        (1, pure Length),
        (1, pure Head),
        (1, pure Last),
        (1, Find <$> edge),
        (1, pure Maximum),
        (1, pure Minimum),
        (1, Any <$> edge),
        (1, All <$> edge),
        (1, Constant <$> small)
      ]
        ++ concat
          [ [ (3, Both <$> resize (n `div` 2) arbitrary <*> resize (n `div` 2) arbitrary),
              (1, Into <$> resize (n `div` 2) arbitrary <*> resize (n `div` 2) arbitrary)
            ]
            | n > 2
          ]
  shrink = \case
    Both f g -> [f, g] ++ [Both f' g | f' <- shrink f] ++ [Both f g' | g' <- shrink g]
    Into op t -> t : [Into op t' | t' <- shrink t]
    List -> []
    _ -> [List]

instance Arbitrary Program where
  arbitrary = Program <$> resize 20 arbitrary <*> resize 7 (listOf arbitrary) <*> resize 12 arbitrary
  shrink (Program f ops t) =
    [Program f' ops t | f' <- shrink f] ++ [Program f ops' t | ops' <- shrink ops] ++ [Program f ops t' | t' <- shrink t]

small, edge, lengths :: Gen Int
small = choose (-9, 9)
edge = oneof [small, choose (-200, 5000)]
-- Those around which safe points come, too.
lengths = frequency [(12, choose (-1, 12)), (2, choose (62, 67)), (1, choose (4094, 4098)), (1, choose (4158, 4162)), (1, choose (8000, 9000))]

-- | A program's flows.
flow :: Op -> Flow Int Int
flow = \case
  Add k -> Flow.map (+ k)
  Halve -> Flow.mapMaybe (\x -> if even x then Just (x `div` 2) else Nothing)
  NotEvery k -> Flow.filter (\x -> x `mod` k /= 0)
  OnlyEvery k -> Flow.filter (\x -> x `mod` k == 0)
  Act k -> Flow.mapM (\x -> pure (x - k))
  Repeat k -> Flow.concatMap (`Flow.countFrom` k)
  Within ops -> Flow.concatMap (\x -> Flow.fromList [x, x + 1, 0] |> flows ops |> Flow.take 5)
  Take n -> Flow.take n
  TakeWhile k -> Flow.takeWhile (< k)
  Drop n -> Flow.drop n
  DropWhile k -> Flow.dropWhile (< k)
  Sums -> Flow.postscan (+) 0
  Scans -> Flow.scan (+) 0
  Differences -> Flow.mapAccum (\t x -> (x, x - t)) 0
  Records -> Flow.mapAccumMaybe (\t x -> if x > t then (x, Just t) else (t, Nothing)) 0
  Held -> Flow.stateful (\t x -> if even x then (x, Flow.fromList [t, x]) else (t + x, mempty)) (\t -> Flow.fromList [t, t + 1, t + 2]) 0
  Number -> Flow.number 1 >-> Flow.map (uncurry (*))
  Zip n -> Flow.zipUnfold (-) (\i -> if i >= n then Nothing else Just (i * i, i + 1)) 0
  Distinct -> Flow.distinct
  Runs -> Flow.runs >-> Flow.map (\(x, n) -> x * 10 + n)

flows :: [Op] -> Flow Int Int
flows = foldr (\op rest -> flow op >-> rest) Category.id

-- | The same of lists.
list :: Op -> [Int] -> [Int]
list = \case
  Add k -> map (+ k)
  Halve -> mapMaybe (\x -> if even x then Just (x `div` 2) else Nothing)
  NotEvery k -> filter (\x -> x `mod` k /= 0)
  OnlyEvery k -> filter (\x -> x `mod` k == 0)
  Act k -> map (subtract k)
  Repeat k -> concatMap (\x -> map (x +) [0 .. k - 1])
  Within ops -> concatMap (\x -> take 5 (lists ops [x, x + 1, 0]))
  Take n -> take n
  TakeWhile k -> takeWhile (< k)
  Drop n -> drop n
  DropWhile k -> dropWhile (< k)
  Sums -> drop 1 . scanl' (+) 0
  Scans -> scanl' (+) 0
  Differences -> \xs -> zipWith (-) xs (0 : xs)
  Records -> catMaybes . snd . mapAccumL (\t x -> if x > t then (x, Just t) else (t, Nothing)) 0
  Held -> held 0
  Number -> zipWith (*) [1 ..]
  Zip n -> \xs -> zipWith (-) xs [i * i | i <- [0 .. n - 1]]
  Distinct -> map (!! 0) . group
  Runs -> map (\g -> head g * 10 + length g) . group
  where
    held t [] = [t, t + 1, t + 2]
    held t (x : xs)
      | even x = t : x : held x xs
      | otherwise = held (t + x) xs

lists :: [Op] -> [Int] -> [Int]
lists ops xs = foldl (flip list) xs ops

source :: From -> Source Int
source = \case
  Elements xs -> Flow.fromList xs
  Range a b -> Flow.range a b
  Count a n -> Flow.countFrom a n
  Unfold n -> Flow.unfold (\i -> if i >= n then Nothing else Just (i * 7 `mod` 11, i + 1)) 0
  After f g -> source f <> source g
  Loops f g -> (\x y -> x * 2 + y) <$> source f <*> source g
  Through f op -> source f |> flow op
  Nowhere -> mempty

members :: From -> [Int]
members = \case
  Elements xs -> xs
  Range a b -> [a .. b]
  Count a n -> take n [a ..]
  Unfold n -> unfoldr (\i -> if i >= n then Nothing else Just (i * 7 `mod` 11, i + 1)) 0
  After f g -> members f ++ members g
  Loops f g -> (\x y -> x * 2 + y) <$> members f <*> members g
  Through f op -> list op (members f)
  Nowhere -> []

sink :: To -> Sink Int [Int]
sink = \case
  List -> Flow.toList
  Sum -> pure <$> Flow.sum
  Length -> pure <$> Flow.length
  Head -> maybe [] pure <$> Flow.head
  Last -> maybe [] pure <$> Flow.last
  Find k -> maybe [] pure <$> Flow.find (> k)
  Maximum -> maybe [] pure <$> Flow.maximum
  Minimum -> maybe [] pure <$> Flow.minimum
  Any k -> pure . fromEnum <$> Flow.any (> k)
  All k -> pure . fromEnum <$> Flow.all (< k)
  Constant k -> pure [k]
  Both f g -> (\x y -> x ++ 0 : y) <$> sink f <*> sink g
  Into op t -> flow op `into` sink t

result :: To -> [Int] -> [Int]
result to xs = case to of
  List -> xs
  Sum -> [sum xs]
  Length -> [length xs]
  Head -> take 1 xs
  Last -> take 1 (reverse xs)
  Find k -> maybe [] pure (find (> k) xs)
  Maximum -> [maximum xs | not (null xs)]
  Minimum -> [minimum xs | not (null xs)]
  Any k -> [fromEnum (any (> k) xs)]
  All k -> [fromEnum (all (< k) xs)]
  Constant k -> [k]
  Both f g -> result f xs ++ 0 : result g xs
  Into op t -> result t (list op xs)

tests :: TestTree
tests =
  testGroup
    "as lists"
    [ localOption (QuickCheckTests 10000) (testProperty "random programs" program),
      testProperty "a flow may be run twice" (\(Program f ops t) -> ioProperty ((\act -> (===) <$> act <*> act) (source f |> flows ops `run` sink t))),
      testGroup
        "laws"
        [ law "id >-> f = f" (\f _ _ -> (Category.id >-> f, f)),
          law "f >-> id = f" (\f _ _ -> (f >-> Category.id, f)),
          law "f >-> (g >-> h) = (f >-> g) >-> h" (\f g h -> (f >-> (g >-> h), (f >-> g) >-> h)),
          law "map (q . p) = map p >-> map q" (\f _ _ -> (f >-> Flow.map ((* 3) . (+ 1)), f >-> Flow.map (+ 1) >-> Flow.map (* 3))),
          law "fmap p f = f >-> map p" (\f _ _ -> (fmap (+ 1) f, f >-> Flow.map (+ 1))),
          law "filter both = filter one >-> filter other" (\f _ _ -> (f >-> Flow.filter (\x -> odd x && x > 1), f >-> Flow.filter odd >-> Flow.filter (> 1))),
          law "concatMap pure = id" (\f _ _ -> (f >-> Flow.concatMap pure, f)),
          law "mapM pure = id" (\f _ _ -> (f >-> Flow.mapM pure, f)),
          testProperty "take twice" (\(Program f _ _) m n -> source f |> Flow.take m |> Flow.take n `same` (source f |> Flow.take (min m n))),
          testProperty "drop twice" (\(Program f _ _) (NonNegative m) (NonNegative n) -> source f |> Flow.drop m |> Flow.drop n `same` (source f |> Flow.drop (m + n))),
          testProperty "a source through flows, or flows into a sink" (\(Program f ops t) -> ioProperty ((===) <$> (source f |> flows ops `run` sink t) <*> (source f `run` flows ops `into` sink t))),
          testProperty "loops in loops, nested either way" nesting
        ],
      testProperty "take pulls what it needs" pulls,
      testProperty "lines" cutting,
      testProperty "chunks of actions" receivedChunks
    ]

program :: Program -> Property
program (Program f ops t) = ioProperty $ do
  got <- source f |> flows ops `run` sink t
  pure (got === result t (lists ops (members f)))

law :: String -> (Flow Int Int -> Flow Int Int -> Flow Int Int -> (Flow Int Int, Flow Int Int)) -> TestTree
law name sides = testProperty name $ \(Program from _ _) (Small3 f g h) ->
  let (left, right) = sides (flow f) (flow g) (flow h) in source from |> left `same` (source from |> right)

infix 1 `same`

same :: Source Int -> Source Int -> Property
same s t = ioProperty ((===) <$> run s Flow.toList <*> run t Flow.toList)

nesting :: Small3 -> Property
nesting (Small3 f g h) = (few f >>= \x -> other g x >>= other h) `same` ((few f >>= other g) >>= other h)
  where
    few op = Flow.range 1 9 |> flow op |> Flow.take 9
    other op x = Flow.range x (x + 4) |> flow op |> Flow.take 3

-- | Three stages for a law.
data Small3 = Small3 Op Op Op
  deriving stock (Show)

instance Arbitrary Small3 where
  arbitrary = resize 6 (Small3 <$> arbitrary <*> arbitrary <*> arbitrary)

-- | To take n is to pull n, even 0; through other stages, too.
pulls :: NonNegative Int -> NonNegative Int -> Property
pulls (NonNegative n) (NonNegative more) = ioProperty $ do
  pulled <- newIORef (0 :: Int)
  let counted = Flow.repeatM (Just <$> atomicModifyIORef' pulled (\k -> (k + 1, k)))
  got <- counted |> Flow.map (+ 1) |> Flow.take n |> Flow.filter even |> Flow.take (n + more) `run` ((,) <$> Flow.toList <*> Flow.length)
  k <- atomicModifyIORef' pulled (\k -> (k, k))
  pure (k === n .&&. got === (filter even [1 .. n], n `div` 2))

-- | Bytes with many newlines, and where they are cut.
newtype Pieces = Pieces [ByteString]
  deriving stock (Show)

instance Arbitrary Pieces where
  arbitrary = Pieces . map B.pack <$> listOf (listOf (frequency [(1, pure 10), (2, choose (97, 99)), (1, arbitrary)]))
  shrink (Pieces bs) = Pieces . map B.pack <$> shrink (map B.unpack bs)

cutting :: Pieces -> Property
cutting (Pieces bs) = ioProperty $ do
  whole <- Flow.fromList bs |> Flow.lines `run` Flow.toList
  left <- newIORef (filter (not . B.null) bs)
  let receive = atomicModifyIORef' left (\case [] -> ([], B.empty); c : cs -> (cs, c))
  received <- Flow.receivingLines receive `run` Flow.toList
  pure (whole === C.lines (B.concat bs) .&&. received === C.lines (B.concat bs))

receivedChunks :: Pieces -> Property
receivedChunks (Pieces bs) = ioProperty $ do
  left <- newIORef bs
  let receive = atomicModifyIORef' left (\case [] -> ([], B.empty); c : cs -> (cs, c))
  got <- Flow.receiving receive `run` Flow.toList
  pure (got === takeWhile (not . B.null) bs)
