-- | The kernels of "Heddle.Bytes.Search", at every level that this machine has, against plain
-- Haskell, in memory whose end must not be passed.
module SearchKernelTest (tests) where

import Control.Monad (forM, forM_, unless, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Maybe (fromMaybe)
import Data.Word (Word8)
import Foreign.Marshal.Array (allocaArray, peekArray)
import Foreign.Ptr (Ptr, castPtr)
import Heddle.Bytes.Internal.Needle
import Heddle.Bytes.Internal.Search
import Heddle.Testkit.Judging (whenOptimised)
import SearchOracle
import System.Mem (getAllocationCounter)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertEqual, assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "kernels"
    [ testCase "the levels begin with plain C and end with the best" $ do
        map show levels @?= take (length levels) ["plain", "SSE2", "AVX2"]
        last levels @?= bestLevel,
      testGroup "bytes" [testCase (show level) (bytesAgree level) | level <- levels],
      testCase "literals, in short texts (100,000 cases)" (withArena (\arena -> forM_ [1 .. 100000] (literalAgrees arena 300))),
      testCase "literals, in long texts" (withArena (\arena -> forM_ [1 .. 150] (literalAgrees arena 20000 . (+ 1000000)))),
      testCase "the Two-Way algorithm alone (100,000 cases)" (withArena (forM_ [1 .. 100000] . twoWayAgrees)),
      testCase "a hit wherever the budget of comparisons ends" budgetEnds,
      testCase "lines, in short texts (60,000 cases)" (withArena (\arena -> forM_ [1 .. 60000] (linesAgree arena 300))),
      testCase "lines, in long texts" (withArena (\arena -> forM_ [1 .. 150] (linesAgree arena 40000 . (+ 1000000)))),
      testCase "hits across every border of a vector and a page" hitsAtBorders,
      testCase "a common literal beside a rare one, a line at a time" commonBesideRare,
      testCase "only ASCII letters are folded, each to one other byte" foldsOnlyLetters,
      whenOptimised (testCase "a call allocates nothing" callsAllocateNothing),
      testGroup "the work is linear" [testCase (show level) (workIsLinear level) | level <- levels]
    ]

-- | Every length up to 300 at every end, and every alignment up to 64 from the start.
bytesAgree :: Level -> IO ()
bytesAgree level = withArena $ \arena -> do
  forM_ [0 .. 300] $ \n -> forM_ (zip [0 ..] pools) $ \(i, pool) -> do
    let text = slice (below (drawFor n) i 100000) n pool
    p <- atEnd arena text
    bytesAgreeOn level text p
  forM_ [0 .. 63] $ \alignment -> forM_ [0 .. 300] $ \n -> do
    let text = slice (below (drawFor n) alignment 100000) n (pools !! (n `mod` length pools))
    p <- atStart arena alignment text
    bytesAgreeOn level text p
  -- Long enough for the counters in vectors to be added up several times.
  forM_ pools $ \pool -> do
    let text = slice 7 150001 pool
    p <- atEnd arena text
    bytesAgreeOn level text p
  forM_ [0, 10, 255] $ \byte -> do
    let text = Bytes.replicate arenaSize byte
    p <- atEnd arena text
    countByteAt level p arenaSize byte >>= (@?= arenaSize)

bytesAgreeOn :: Level -> ByteString -> Ptr Word8 -> IO ()
bytesAgreeOn level text p = forM_ [0, 10, 97, 255] $ \byte -> do
  let places = Bytes.elemIndices byte text
      count = length places
      say what = what <> " of " <> show byte <> " in " <> show (Bytes.take 400 text)
      orNowhere = fromMaybe (-1)
  findByteAt level p n byte >>= assertEqual (say "first") (orNowhere (Bytes.elemIndex byte text))
  findByteEndAt level p n byte >>= assertEqual (say "last") (orNowhere (Bytes.elemIndexEnd byte text))
  countByteAt level p n byte >>= assertEqual (say "count") count
  forM_ [0, 1, 2, count `quot` 2, count, count + 1] $ \nth ->
    nthByteAt level p n byte nth
      >>= assertEqual (say (show nth <> "-th")) (if nth >= 1 && nth <= count then places !! (nth - 1) else -1)
  let from = min n (n `quot` 3)
  forM_ [3, n + 1] $ \room -> allocaArray room $ \out -> do
    used <- bytePlacesAt level p n from byte out room
    peekArray used out >>= assertEqual (say "places") (take room (dropWhile (< from) places))
  where
    n = Bytes.length text

-- | A text, a rule and literals: taken from the text, changed in one byte, or from elsewhere.
drawCase :: Int -> Int -> (ByteString, CaseRule, [ByteString])
drawCase longest number = (text, rule, [literal i | i <- [0 .. literals - 1]])
  where
    draw = below (drawFor number)
    pool = pools !! draw 1 (length pools)
    text = slice (draw 2 150000) (draw 3 (longest + 1)) pool
    rule = if draw 4 2 == 0 then CaseMatters else IgnoreAsciiCase
    literals = if draw 5 3 == 0 then 1 + draw 6 4 else 1
    literal i
      | kind < 4 = taken
      | kind < 7 && not (Bytes.null taken) = changed taken
      | kind < 8 = slice (draw (k + 1) 150000) size (pools !! draw (k + 2) (length pools))
      | otherwise = slice (draw (k + 1) 150000) size pool
      where
        k = 100 * (i + 1)
        kind = draw k 9
        size = case draw (k + 3) 8 of
          0 -> draw (k + 4) 3
          1 -> draw (k + 4) (longest + 1)
          2 -> draw (k + 4) 70
          _ -> 1 + draw (k + 4) 12
        taken = slice (draw (k + 5) (Bytes.length text)) size text
        changed t =
          let j = draw (k + 6) (Bytes.length t)
           in Bytes.concat [Bytes.take j t, Bytes.singleton (fromIntegral (draw (k + 7) 256)), Bytes.drop (j + 1) t]

needles :: Level -> CaseRule -> [ByteString] -> IO Needle
needles level rule literals = maybe (assertFailure "too many literals") pure (newNeedlesAt level rule literals)

literalAgrees :: Arena -> Int -> Int -> IO ()
literalAgrees arena longest number = do
  let (text, rule, literals) = drawCase longest number
      n = Bytes.length text
      first = naiveFind rule literals text 0
      from = min n (if first < 0 then n `quot` 2 else first + 1)
      second = naiveFind rule literals text from
  p <- if even number then atEnd arena text else atStart arena (number `mod` 64) text
  forM_ levels $ \level -> do
    needle <- needles level rule literals
    found <- findNeedleAt needle p n 0
    again <- findNeedleAt needle p n from
    unless (found == first && again == second) $
      assertFailure (show (number, level, rule, literals, text) <> ": " <> show (found, again) <> ", not " <> show (first, second))

-- | Usually with literals of few letters, whose periods matter.
twoWayAgrees :: Arena -> Int -> IO ()
twoWayAgrees arena number = do
  let (text, rule, literals) = drawCase 120 number
      draw = below (drawFor number)
      few = pools !! draw 50 3
      period = slice (draw 51 150000) (1 + draw 52 6) few
      periodic = Bytes.take (1 + draw 53 20) (Bytes.concat (replicate 20 period))
      (text', literal) = case draw 54 3 of
        0 -> (text, head literals)
        1 -> (slice (draw 55 150000) (draw 56 120) few, slice (draw 57 150000) (draw 58 9) few)
        _ -> (Bytes.concat [slice (draw (60 + i) 20) (draw (80 + i) 40) (Bytes.concat (replicate 12 period)) | i <- [0 .. 5]], periodic)
      n = Bytes.length text'
      expected = naiveFind rule [literal] text' 0
      next = naiveFind rule [literal] text' (expected + 1)
      needle = newNeedleAt (head levels) rule literal
  p <- atEnd arena text'
  found <- findNeedleTired needle p n 0
  again <- findNeedleTired needle p n (min n (expected + 1))
  unless (found == expected && (again == next || expected == n)) $
    assertFailure (show (number, rule, literal, text') <> ": " <> show (found, again) <> ", not " <> show (expected, next))

budgetEnds :: IO ()
budgetEnds = withArena $ \arena ->
  forM_ [(Bytes.replicate 20 97, Bytes.replicate 19 97 <> Char8.pack "b"), (Char8.pack "aabbaabbaabbaaa", Char8.pack "aabb")] $ \(literal, part) ->
    forM_ [0 .. 2500] $ \planted -> do
      let text = Bytes.concat [Bytes.take planted (Bytes.concat (replicate 700 part)), literal, part, part]
          n = Bytes.length text
          expected = Bytes.length (fst (Bytes.breakSubstring literal text))
      p <- atEnd arena text
      forM_ levels $ \level -> do
        found <- findNeedleAt (newNeedleAt level CaseMatters literal) p n 0
        when (found /= expected) $ assertFailure (show (level, literal, planted, found, expected))

linesAgree :: Arena -> Int -> Int -> IO ()
linesAgree arena longest number = do
  let (text, rule, literals) = drawCase longest number
      n = Bytes.length text
      expected = naiveLines rule literals text
  p <- if even number then atEnd arena text else atStart arena (number `mod` 64) text
  forM_ levels $ \level -> do
    needle <- needles level rule literals
    counted <- countLinesAt needle p n
    found <- allLines needle p n (1 + number `mod` 5)
    unless (counted == length expected && found == expected) $
      assertFailure (show (number, level, rule, literals, text) <> ": " <> show (counted, found) <> ", not " <> show expected)

-- | All lines, this many at a time.
allLines :: Needle -> Ptr Word8 -> Int -> Int -> IO [(Int, Int, Int)]
allLines needle p n room = do
  table <- newLines room
  linesCapacity table @?= room
  let go from = do
        used <- nextLinesAt needle p n from True table
        here <- forM [0 .. used - 1] $ \i -> (,,) <$> lineStart table i <*> lineEnd table i <*> linesSkipped table i
        if used < room then pure here else (here ++) <$> (go . (+ 1) =<< lineEnd table (room - 1))
  go 0

-- | One hit, ending at each of the last bytes of memory and beginning at each of the first.
hitsAtBorders :: IO ()
hitsAtBorders = withArena $ \arena ->
  forM_ ["x", "xy", "FIND ME", replicate 31 'x' ++ "y", replicate 33 'x' ++ "y", replicate 100 'x' ++ "y"] $ \word ->
    forM_ [0 .. 140] $ \distance -> forM_ [0, 500] $ \filling -> do
      let literal = Char8.pack word
          side = Bytes.replicate distance 46
          other = Bytes.replicate filling 46
      forM_ [(Bytes.concat [other, literal, side], filling), (Bytes.concat [side, literal, other], distance)] $ \(text, place) ->
        forM_ levels $ \level -> do
          let needle = newNeedleAt level CaseMatters literal
              n = Bytes.length text
          end <- atEnd arena text
          findNeedleAt needle end n 0 >>= (@?= place)
          findNeedleAt needle end (n - 1) 0 >>= (@?= if place + length word == n then -1 else place)
          start <- atStart arena 0 text
          findNeedleAt needle start n 0 >>= (@?= place)
          findNeedleAt needle start n (place + 1) >>= (@?= -1)

-- | The windows in which several literals advance give the same as a search for each.
commonBesideRare :: IO ()
commonBesideRare = withArena $ \arena -> do
  let filler = Char8.pack (replicate 30 '.' ++ "\n")
      block = Bytes.concat (concat [replicate 1000 filler, [Char8.pack "one rare\n"], replicate 2000 filler, [Char8.pack "a common\n"], replicate 5 (Char8.pack "common and rare\n")])
      literals = map Char8.pack ["rare", "common", "absent"]
      expected = naiveLines CaseMatters literals block
  length expected @?= 7
  p <- atEnd arena block
  forM_ levels $ \level -> do
    needle <- needles level CaseMatters literals
    forM_ [1, 2, 100] $ \room -> allLines needle p (Bytes.length block) room >>= (@?= expected)
    countLinesAt needle p (Bytes.length block) >>= (@?= 7)

foldsOnlyLetters :: IO ()
foldsOnlyLetters = withArena $ \arena ->
  forM_ levels $ \level -> forM_ [0 .. 255] $ \wanted -> forM_ [0, 20, 50] $ \before -> do
    let letter c = (c >= 65 && c <= 90) || (c >= 97 && c <= 122)
        partner c = if letter c then if c < 97 then c + 32 else c - 32 else c
        needle = newNeedleAt level IgnoreAsciiCase (Bytes.singleton wanted)
        filler = Bytes.replicate before (if wanted == 46 then 44 else 46)
    forM_ [0 .. 255] $ \there -> do
      p <- atEnd arena (Bytes.snoc filler there)
      found <- findNeedleAt needle p (before + 1) 0
      when ((found >= 0) /= (there == wanted || there == partner wanted)) $
        assertFailure (show (level, wanted, there, found))

callsAllocateNothing :: IO ()
callsAllocateNothing = withArena $ \arena -> do
  p <- atEnd arena (Char8.pack "some\nlines\n")
  table <- newLines 2
  let needle = newNeedleAt bestLevel CaseMatters (Char8.pack "e")
      calls :: Int -> Int -> IO Int
      calls !total 0 = pure total
      calls !total n = do
        place <- findNeedleAt needle p 11 2
        found <- nextLinesAt needle p 11 0 True table
        end <- lineEnd table (found - 1)
        counted <- countLinesAt needle p 11
        newlines <- countByteAt bestLevel p 11 10
        calls (total + place + end + counted + newlines) (n - 1)
  before <- getAllocationCounter
  total <- calls 0 10000
  after <- getAllocationCounter
  total @?= 10000 * (3 + 10 + 2 + 2)
  assertBool (show (before - after) <> " bytes") (before - after < 40000)

-- | Texts that look like the needle everywhere: trying each place would take the product of
-- both lengths.
workIsLinear :: Level -> IO ()
workIsLinear level = do
  works <- forM worst $ \(name, literal, text) -> forM [minBound .. maxBound] $ \rule -> do
    let n = Bytes.length text
        m = Bytes.length literal
    work <- unsafeUseAsCStringLen text (\(p, _) -> needleWork (newNeedleAt level rule literal) (castPtr p) n)
    assertBool (name <> ": " <> show work <> " steps for " <> show n <> " bytes") (work <= 6 * n + m + 2048)
    pure (work > n)
  assertBool "some are bad enough for the budget to be spent" (or (concat works))
  where
    size = 100000
    a k = Bytes.replicate k 97
    b = Char8.pack "b"
    many part = Bytes.take size (Bytes.concat (replicate (size `quot` Bytes.length part + 1) part))
    fibonacci = Bytes.take size (go b (a 1))
      where
        go x y = if Bytes.length y >= size then y else go y (y <> x)
    worst =
      [ ("a^m in (a^(m-1) b)*", a 200, many (a 199 <> b)),
        ("a^m b in a^n", a 200 <> b, a size),
        ("b a^m in a^n", b <> a 200, a size),
        ("a^m b a^m in a^n", a 100 <> b <> a 100, a size),
        ("a^m b a^m in (a^(m-1) b)*", a 100 <> b <> a 100, many (a 99 <> b)),
        ("(ab)^m a in (ab)* a a", Bytes.take 201 (many (a 1 <> b)), many (Bytes.take 199 (many (a 1 <> b)) <> a 1)),
        ("(aab)^m in (aab)^(m-1) aaa", Bytes.take 300 (many (a 2 <> b)), many (Bytes.take 297 (many (a 2 <> b)) <> a 3)),
        ("Fibonacci", Bytes.take 987 fibonacci <> a 2, fibonacci),
        ("a hit everywhere", a 2, a size)
      ]
