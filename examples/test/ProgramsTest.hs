-- | Each program's ways agree with each other, and with something simpler.
module ProgramsTest
  ( tests,
  )
where

import Data.ByteString qualified as B
import Data.List (elemIndex)
import Data.Primitive.PrimArray
import Rendezvous.Filter qualified as Filter
import Rendezvous.Histogram qualified as Histogram
import Rendezvous.Maximum qualified as Maximum
import Rendezvous.Numbers (numberAt)
import Rendezvous.Picture (Picture (..), drawn)
import Rendezvous.Pipeline (Flow (Flow))
import Rendezvous.Pipeline qualified as Pipeline
import Rendezvous.ProducerConsumer (Goods (Goods))
import Rendezvous.ProducerConsumer qualified as ProducerConsumer
import Rendezvous.Search qualified as Search
import Rendezvous.Spans
import Rendezvous.Ways
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertFailure, testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "programs"
    [ testGroup "producer and consumer" producers,
      testGroup "pipeline" pipelines,
      testGroup "maximum" maxima,
      testGroup "search" searches,
      testGroup "filter" filters,
      testGroup "histogram" histograms,
      testGroup "spans" spans,
      testGroup "ways" ways
    ]

-- A number from 1 to this one.
upTo :: Int -> Gen Int
upTo most = choose (1, most)

producers :: [TestTree]
producers =
  [ testCase "nothing is produced" $ both (Goods 0 10) @?= (0, 0),
    testProperty "in turn or at the same time" $
      forAll (choose (0, 60)) $ \size -> forAll (choose (0, 50)) $ \work ->
        uncurry (===) (both (Goods size work)),
    testCase "the default, with less work" $ uncurry (@?=) (both (Goods 2000 20))
  ]
  where
    both goods = (ProducerConsumer.sequential goods, ProducerConsumer.det goods)

pipelines :: [TestTree]
pipelines =
  [ testCase "nothing flows" $ both (Flow 2 0 10) @?= (0, 0),
    testProperty "any number of stages" $
      forAll (choose (0, 12)) $ \stages -> forAll (choose (0, 40)) $ \items -> forAll (choose (0, 20)) $ \work ->
        uncurry (===) (both (Flow stages items work)),
    testCase "the default, with less work" $ uncurry (@?=) (both (Flow 2 2000 20)),
    testCase "a hundred stages" $ uncurry (@?=) (both (Flow 100 100 5))
  ]
  where
    both flow = (Pipeline.sequential flow, Pipeline.det flow)

maxima :: [TestTree]
maxima =
  [ testProperty "a list's maximum" $ \(NonEmpty list) -> forAll (upTo 20) $ \count ->
      agree count (primArrayFromList list) (maximum list),
    testProperty "the extremes" $
      forAll (listOf1 (elements [minBound, minBound + 1, -1, 0, 1, maxBound])) $ \list -> forAll (upTo 20) $ \count ->
        agree count (primArrayFromList list) (maximum list),
    testCase "the default" $ do
      let array = Maximum.randomNumbers 19 400000
          expected = foldlPrimArray' max minBound array
      Maximum.sequential array @?= expected
      Maximum.parPseq 8 array @?= expected
      Maximum.det 8 array @?= expected
  ]
  where
    agree count array expected =
      (Maximum.sequential array, Maximum.parPseq count array, Maximum.det count array) === (expected, expected, expected)

searches :: [TestTree]
searches =
  [ testProperty "the first of several copies, or none" $
      forAll (listOf (choose (0, 30))) $ \list -> forAll (choose (0, 30)) $ \key ->
        forAll (upTo 7) $ \interval -> forAll (upTo 6) $ \threads -> forAll (choose (0, 3)) $ \work ->
          agree threads interval (Search.searchFor work key (primArrayFromList list)) (elemIndex key list),
    testProperty "copies in every fragment" $
      forAll (upTo 5) $ \interval -> forAll (upTo 5) $ \threads -> forAll (choose (0, 200)) $ \misses ->
        let list = replicate misses 0 <> concat (replicate (3 * threads * interval) [1, 0])
         in agree threads interval (Search.searchFor 0 1 (primArrayFromList list)) (Just misses),
    testCase "the default, with less work" $ do
      let (key, list) = Search.planted 23 420000 390000
          input = Search.searchFor 1 key list
      Search.sequential input @?= Just 390000
      Search.detRendezvous 2 1000 input @?= Just 390000
      Search.detLeftmost 1000 input @?= Just 390000
  ]
  where
    agree threads interval input expected =
      (Search.sequential input, Search.detRendezvous threads interval input, Search.detLeftmost interval input)
        === (expected, expected, expected)

filters :: [TestTree]
filters =
  [ testProperty "a convolution" $
      forAll (listOf (choose (-1, 1))) $ \samples -> forAll (resize 12 (listOf1 (choose (-1, 1)))) $ \taps ->
        let result = Filter.sequential (Filter.filterOf (primArrayFromList taps) (primArrayFromList samples))
            expected = convolution taps samples
         in counterexample (show (result, expected)) (and (zipWith near (primArrayToList result) expected) && sizeofPrimArray result == length samples),
    testProperty "workers, to the last bit" $
      forAll (choose (0, 300)) $ \size -> forAll (upTo 40) $ \taps -> forAll (upTo 6) $ \workers -> forAll (upTo 50) $ \job ->
        let input = Filter.filterOf (Filter.lowPass taps) (Filter.signal size)
         in Filter.det workers job input === Filter.sequential input,
    testCase "the default, with fewer coefficients" $ do
      let input = Filter.filterOf (Filter.lowPass 16) (Filter.signal 50000)
      Filter.det 8 500 input @?= Filter.sequential input,
    testProperty "a low-pass leaves what does not change" $
      forAll (upTo 60) $ \taps ->
        let constant = generatePrimArray 200 (const 1)
            result = Filter.sequential (Filter.filterOf (Filter.lowPass taps) constant)
         in near (indexPrimArray result 199) 1
  ]
  where
    near a b = abs (a - b) < 1e-9 * max 1 (abs b)
    convolution :: [Double] -> [Double] -> [Double]
    convolution taps samples = [sum [t * samples !! (i - k) | (k, t) <- zip [0 ..] taps, k <= i] | i <- [0 .. length samples - 1]]

histograms :: [TestTree]
histograms =
  [ testProperty "a naive count" $
      forAll (choose (0, 60)) $ \pixels -> forAll (vectorOf (3 * pixels) arbitrary) $ \bytes ->
        forAll (upTo 3) $ \times -> forAll (upTo 5) $ \workers -> forAll (upTo 20) $ \job ->
          let shades = Histogram.Shades (Histogram.pixelsOf (B.pack bytes)) times
              expected = naive (concat (replicate times bytes))
           in (primArrayToList (Histogram.sequential shades), primArrayToList (Histogram.det workers job shades)) === (expected, expected),
    testCase "the default" $ do
      let shades = Histogram.Shades (Histogram.pixelsOf (picturePixels (drawn 434 434))) 2
          counts = Histogram.sequential shades
      Histogram.det 8 5000 shades @?= counts
      foldlPrimArray' (+) 0 counts @?= 2 * 3 * 434 * 434
  ]
  where
    naive bytes =
      let placed = zip (cycle [0, 1, 2 :: Int]) bytes
       in [length (filter (== (channel, shade)) placed) | channel <- [0, 1, 2], shade <- [0 .. 255]]

spans :: [TestTree]
spans =
  [ testProperty "of a length: one after the other, to the end" $
      forAll (upTo 30) $ \size -> forAll (choose (0, 200)) $ \whole ->
        let list = spansOf size whole
         in concatMap elementsOf list === [0 .. whole - 1] .&&. all ((`elem` [1 .. size]) . spanLength) list,
    testProperty "in number: about equal, to the end" $
      forAll (upTo 30) $ \count -> forAll (upTo 200) $ \whole ->
        let list = pieces count whole
            lengths = map spanLength list
         in concatMap elementsOf list === [0 .. whole - 1]
              .&&. length list === min count whole
              .&&. maximum lengths - minimum lengths <= 1
  ]
  where
    elementsOf (Span start size) = take size [start ..]

ways :: [TestTree]
ways =
  [ testCase "all rounds of all ways" $
      compete 3 2 [Way "one" (+ 1), Way "other" succ] (41 :: Int) >>= \case
        Right (Contest answer times) -> do
          answer @?= 42
          map (fmap length) times @?= [("one", 3), ("other", 3)]
        Left two -> assertFailure (show two),
    testCase "those that do not agree are named" $
      compete 2 1 [Way "right" (+ 1), Way "wrong" (+ 2)] (1 :: Int) >>= \case
        Left two -> two @?= ("right", "wrong")
        Right (Contest answer _) -> assertFailure (show answer),
    testCase "medians, and how many times as fast" $
      report "sum" "5" [("sequential", [9000000, 8000000, 1000000]), ("det", [4000000, 4000000, 50])]
        @?= "sum  result 5  sequential 8.00 ms  det 4.00 ms (2.00x)",
    testCase "numbers of a seed are always the same" $
      -- As published with SplitMix64, for seed 0.
      map (numberAt 0) [0, 1, 2] @?= [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
  ]
