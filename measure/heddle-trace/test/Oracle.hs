{-# LANGUAGE OverloadedStrings #-}

-- | The reader against ghc-events: the same logs give the same events, with time, capability, kind and fields. This suite is built
-- where ghc-events is installed.
module Main (main) where

import Control.Monad (forM_, unless)
import Data.Bits (shiftL, shiftR, (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Data.IntMap.Strict qualified as IntMap
import Data.List (sortOn)
import Data.Maybe (fromMaybe)
import Data.Text qualified as T
import Data.Text.Encoding (encodeUtf8)
import Foreign.Ptr (castPtr)
import GHC.RTS.Events hiding (size)
import Heddle.Trace.Log
import Logs
import System.Environment (getArgs)
import Test.Tasty (TestTree, defaultMain, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))
import Workload

main :: IO ()
main =
  getArgs >>= \case
    ["workload"] -> workload
    _ -> defaultMain tests

tests :: TestTree
tests =
  testGroup
    "heddle-trace and ghc-events"
    [ testGroup
        "a log of this runtime"
        [ testCase classes . withWorkload classes $ \path -> do
            events' <- agree path
            forM_ [1, 2, 53] $ \kind -> assertBool ("events of the kind " ++ show kind) (or [k == kind | Seen _ k _ _ <- concat (IntMap.elems events')])
          | classes <- ["-l", "-la", "-lsgpfu"]
        ],
      testCase "400 made logs: every kind of event, any numbers, any number of cores and blocks" $ do
        kinds <- newIORef IntMap.empty
        forM_ [1 .. 400] $ \seed -> withBytes (madeLog seed) $ \path -> do
          events' <- agree path
          modifyIORef' kinds (IntMap.union (IntMap.fromList [(k, ()) | Seen _ k _ _ <- concat (IntMap.elems events')]))
        readIORef kinds >>= (@?= map fst declared) . IntMap.keys
    ]

-- | An event: its time, its kind, its numbers, its text.
data Seen = Seen !Int !Int ![Int] !ByteString
  deriving stock (Eq, Show)

-- | Both readers give the same events of each capability, in the same order; these events. How events of the same time of two
-- capabilities are ordered, neither promises.
agree :: FilePath -> IO (IntMap.IntMap [Seen])
agree path = do
  mine <- ours path
  other <- theirs path
  IntMap.keys mine @?= IntMap.keys other
  forM_ (IntMap.toList mine) $ \(core, seen) -> do
    let expected = fromMaybe [] (IntMap.lookup core other)
    forM_ (zip3 [0 :: Int ..] seen expected) $ \(i, a, b) ->
      unless (a == b) (assertFailure ("capability " ++ show core ++ ", event " ++ show i ++ ": " ++ show a ++ ", but ghc-events says " ++ show b))
    length seen @?= length expected
  pure mine

byCore :: [(Int, Seen)] -> IntMap.IntMap [Seen]
byCore seen = IntMap.map reverse (IntMap.fromListWith (++) [(core, [one]) | (core, one) <- seen])

-- Ours ----------------------------------------------------------------------------------

ours :: FilePath -> IO (IntMap.IntMap [Seen])
ours path = withLog (C.pack path) $ \l -> do
  found <- newIORef []
  forEvents l (const True) $ \stream time' kind p count -> do
    whole <- B.packCStringLen (castPtr p, count)
    let widths = maybe [] (map (\w -> if w == 0 then threadIdBytes l else w)) (lookup kind declared)
        (numbers, rest) = split widths whole
        seen = case (kind, numbers) of
          -- The third is a thread only if that holds the evaluation that the first one waits for.
          (2, [t, status', other]) -> [t, known status'] ++ [other | status' == 8]
          -- The last of these was added later.
          (53, _) -> numbers ++ fst (split [8] rest)
          _ -> numbers
        text
          | kind `elem` [16, 19, 29, 44, 58, 181] = rest
          | kind `elem` [30, 31] = fst (B.spanEnd (== 0) rest)
          | otherwise = B.empty
    modifyIORef' found ((streamCapability l stream, Seen time' kind seen text) :)
  (notes, _) <- logNotes l
  notes @?= []
  byCore . reverse <$> readIORef found
  where
    split [] rest = ([], rest)
    split (w : ws) bytes
      | B.length bytes < w = ([], bytes)
      | otherwise = let (numbers, rest) = split ws (B.drop w bytes) in (B.foldl' (\n b -> n `shiftL` 8 .|. fromIntegral b) 0 (B.take w bytes) : numbers, rest)
    -- A migration, which ghc-events does not know.
    known 19 = 0
    known n = n

-- | Each kind of event that GHC 9 writes, and the bytes of its numbers (0: those of a thread). Then comes a text, if any.
declared :: [(Int, [Int])]
declared =
  sortOn fst $
    [(k, []) | k <- [9, 10, 11, 12, 16, 19, 20, 21, 22, 35, 36, 37, 38, 40, 41, 54, 58, 181, 199]]
      ++ [(k, [0]) | k <- [0, 1, 3, 15, 44]]
      ++ [(k, [0, 2]) | k <- [4, 8]]
      ++ [(k, [2]) | k <- [39, 45, 46, 47, 48]]
      ++ [(k, [4]) | k <- [26, 29, 30, 31]]
      ++ [(k, [4, 2]) | k <- [25, 27, 28]]
      ++ [(k, [4, 4]) | k <- [32, 33]]
      ++ [(k, [4, 8]) | k <- [49, 50, 51, 91]]
      ++ [ (2, [0, 2, 0]),
           (34, replicate 7 8),
           (43, [4, 8, 4]),
           (52, [4, 2, 8, 8, 8, 8]),
           (53, [4, 2, 8, 8, 8, 4, 8, 8]),
           (55, [8, 2, 8]),
           (56, [8, 2, 2]),
           (57, [8]),
           (90, [4, 4, 4, 4])
         ]

-- Theirs --------------------------------------------------------------------------------

theirs :: FilePath -> IO (IntMap.IntMap [Seen])
theirs path =
  readEventLogFromFile path >>= \case
    Left why -> assertFailure ("ghc-events: " ++ why)
    Right l -> do
      seen <- traverse one (events (dat l))
      pure (IntMap.map (scanl1 later) (byCore seen))
  where
    -- The end of a collection has the time at which it was, though others came between. Our reader's times never go back.
    later (Seen before _ _ _) (Seen time' kind numbers text) = Seen (max before time') kind numbers text
    one e = do
      (kind, numbers, text) <- maybe (assertFailure ("ghc-events: " ++ show e)) pure (parts (evSpec e))
      pure (fromMaybe (-1) (evCap e), Seen (fromIntegral (evTime e)) kind numbers text)

parts :: EventInfo -> Maybe (Int, [Int], ByteString)
parts = \case
  CreateThread t -> numbers 0 [n t]
  RunThread t -> numbers 1 [n t]
  StopThread t s -> numbers 2 (n t : stopped s)
  ThreadRunnable t -> numbers 3 [n t]
  MigrateThread t c -> numbers 4 [n t, c]
  WakeupThread t c -> numbers 8 [n t, c]
  StartGC -> numbers 9 []
  EndGC -> numbers 10 []
  RequestSeqGC -> numbers 11 []
  RequestParGC -> numbers 12 []
  CreateSparkThread t -> numbers 15 [n t]
  Message m -> texts 16 [] m
  UserMessage m -> texts 19 [] m
  GCIdle -> numbers 20 []
  GCWork -> numbers 21 []
  GCDone -> numbers 22 []
  CapsetCreate c t -> numbers 25 [n c, setType t]
  CapsetDelete c -> numbers 26 [n c]
  CapsetAssignCap c k -> numbers 27 [n c, k]
  CapsetRemoveCap c k -> numbers 28 [n c, k]
  RtsIdentifier c t -> texts 29 [n c] t
  ProgramArgs c ts -> texts 30 [n c] (T.intercalate "\0" ts)
  ProgramEnv c ts -> texts 31 [n c] (T.intercalate "\0" ts)
  OsProcessPid c p -> numbers 32 [n c, n p]
  OsProcessParentPid c p -> numbers 33 [n c, n p]
  SparkCounters a b c d fizzled collected e -> numbers 34 (map n [a, b, c, d, collected, fizzled, e])
  SparkCreate -> numbers 35 []
  SparkDud -> numbers 36 []
  SparkOverflow -> numbers 37 []
  SparkRun -> numbers 38 []
  SparkSteal c -> numbers 39 [c]
  SparkFizzle -> numbers 40 []
  SparkGC -> numbers 41 []
  WallClockTime c a b -> numbers 43 [n c, n a, n b]
  ThreadLabel t l -> texts 44 [n t] l
  CapCreate c -> numbers 45 [c]
  CapDelete c -> numbers 46 [c]
  CapDisable c -> numbers 47 [c]
  CapEnable c -> numbers 48 [c]
  HeapAllocated c a -> numbers 49 [n c, n a]
  HeapSize c a -> numbers 50 [n c, n a]
  HeapLive c a -> numbers 51 [n c, n a]
  HeapInfoGHC c g a b d e -> numbers 52 [n c, g, n a, n b, n d, n e]
  GCStatsGHC c g a b d p e f h -> numbers 53 ([n c, g, n a, n b, n d, p, n e, n f] ++ maybe [] (pure . n) h)
  GlobalSyncGC -> numbers 54 []
  TaskCreate t c (KernelThreadId k) -> numbers 55 [n t, c, n k]
  TaskMigrate t c d -> numbers 56 [n t, c, d]
  TaskDelete t -> numbers 57 [n t]
  UserMarker m -> texts 58 [] m
  MemReturn c a b d -> numbers 90 [n c, n a, n b, n d]
  BlocksSize c a -> numbers 91 [n c, n a]
  UserBinaryMessage b -> Just (181, [], b)
  UnknownEvent k -> numbers (fromIntegral k) []
  _ -> Nothing
  where
    n :: Integral a => a -> Int
    n = fromIntegral
    numbers kind ns = Just (kind, ns, B.empty)
    texts kind ns t = Just (kind, ns, encodeUtf8 t)
    setType = \case
      CapsetCustom -> 1
      CapsetOsProcess -> 2
      CapsetClockDomain -> 3
      CapsetUnknown -> 4

-- By the numbers that ghc-events reads. It names those from 14 on otherwise than GHC 9, whose foreign calls have 16.
stopped :: ThreadStopStatus -> [Int]
stopped = \case
  NoStatus -> [0]
  HeapOverflow -> [1]
  StackOverflow -> [2]
  ThreadYielding -> [3]
  ThreadBlocked -> [4]
  ThreadFinished -> [5]
  ForeignCall -> [6]
  BlockedOnMVar -> [7]
  BlockedOnBlackHole -> [8]
  BlockedOnRead -> [9]
  BlockedOnWrite -> [10]
  BlockedOnDelay -> [11]
  BlockedOnSTM -> [12]
  BlockedOnDoProc -> [13]
  BlockedOnCCall -> [14]
  BlockedOnCCall_NoUnblockExc -> [15]
  BlockedOnMsgThrowTo -> [16]
  ThreadMigrating -> [17]
  BlockedOnMsgGlobalise -> [18]
  BlockedOnMVarRead -> [20]
  BlockedOnBlackHoleOwnedBy t -> [8, fromIntegral t]

-- Made logs ------------------------------------------------------------------------------

-- | A log of up to four capabilities and the stream without one, in up to three blocks of each.
madeLog :: Int -> ByteString
madeLog seed = encodeLog types [Block core (1000 * b) (1000 * b + 999) (content core b) | b <- [0 .. upTo 2 (at 1)], core <- 0xffff : [0 .. upTo 3 (at 2)]]
  where
    types = [(k, size k ws) | (k, ws) <- declared] ++ [(18, 14), (59, 0)]
    size k ws
      | k `elem` [16, 19, 29, 30, 31, 44, 58, 181] = 0xffff
      | k == 199 = 3
      | otherwise = sum (map width ws) + (if k == 53 && even seed then 8 else 0)
    width 0 = 4
    width w = w
    content core b = [made (mix (seed, core, b, i)) (1000 * b + 10 * i) | i <- [0 .. upTo 60 (at (3 + core + b))]]
    made r time' =
      let (kind, ws) = declared !! (r `mod` length declared)
          numbers = zipWith (\i w -> (width w, value kind i (width w) (mix (r, i, 0, 0)))) [0 :: Int ..] ws
          text = C.pack (take (r `shiftR` 7 `mod` 12) (drop (r `mod` 5) "a text of a log"))
       in case size kind ws of
            0xffff -> variable kind time' (B.drop 10 (event kind time' numbers) <> text)
            3 -> event kind time' [(3, 7)]
            n -> event kind time' (numbers ++ [(8, 5) | n > sum (map fst numbers)])
    -- What both must understand: reasons, and types of sets.
    value kind i w r
      | kind == 2 && i == 1 = [0 .. 20] !! (r `mod` 21)
      | kind == 25 && i == 1 = 1 + r `mod` 3
      | otherwise = r `mod` (1 `shiftL` min 62 (8 * w))
    upTo n r = r `mod` (n + 1)
    at i = mix (seed, i, 77, 0)

-- | Numbers that look random.
mix :: (Int, Int, Int, Int) -> Int
mix (a, b, c, d) = foldl (\h x -> let y = (h * 6364136223846793005 + x + 1442695040888963407) in abs (y `shiftR` 13 + y) `mod` (1 `shiftL` 62)) 99991 [a, b, c, d, a]
