{-# OPTIONS_GHC -Wno-orphans #-}

-- | The everyday stages against lists, and files, handles and lines.
module PipeItemTest (tests) where

import Control.Exception (SomeException (..), displayException, finally, throwIO, toException, try)
import Control.Monad (forM_, void)
import Control.Monad.IO.Class (liftIO)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Data.List (mapAccumL)
import Heddle.Flow qualified as Flow
import Heddle.Pipe (ItemTooLong (..), Pipe, PipeException, StageFailed (..), Void, yield, (.|))
import Heddle.Pipe qualified as Pipe
import System.Directory (getTemporaryDirectory, removeFile)
import System.IO (IOMode (..), hClose, openBinaryTempFile, withBinaryFile)
import Test.QuickCheck
import Test.QuickCheck.Monadic (monadicIO)
import Test.QuickCheck.Monadic qualified as Q
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck (testProperty)

{- HLINT ignore "Use void" -}
-- The dropped results are intended.

tests :: TestTree
tests =
  testGroup
    "pipe stages"
    [ testGroup
        "as on lists"
        [ same "map" (Pipe.map (* 2)) (map (* 2)),
          same "mapM" (Pipe.mapM (pure . (* 2))) (map (* 2)),
          same "filter" (Pipe.filter even) (filter even),
          same "concatMap" (Pipe.concatMap (\a -> [a, a + 1 .. a + 2])) (concatMap (\a -> [a, a + 1 .. a + 2])),
          same "takeWhile" (Pipe.takeWhile (< 5)) (takeWhile (< 5)),
          same "dropWhile" (Pipe.dropWhile (< 5)) (dropWhile (< 5)),
          same "scan" (Pipe.scan (+) 0) (scanl (+) 0),
          same "postscan" (Pipe.postscan (+) 0) (drop 1 . scanl (+) 0),
          same "scanOfAFlowBeganWithoutItsFirstState" (Pipe.fromFlow (Flow.scan (+) 0)) (scanl (+) 0),
          same "mapAccum" (void (Pipe.mapAccum (\s a -> (s + a, s * a)) 0)) (snd . mapAccumL (\s a -> (s + a, s * a)) 0),
          testProperty "take" (\n as -> yields (Pipe.each as .| Pipe.take n) (take n (as :: [Int]))),
          testProperty "drop" (\n as -> yields (Pipe.each as .| Pipe.drop n) (drop n (as :: [Int]))),
          testProperty "take, and what comes next" $ \n as ->
            yields (Pipe.each as .| ((Pipe.take n .| Pipe.map negate) *> Pipe.map id)) (map negate (take n as) ++ drop n (as :: [Int])),
          testProperty "chunksOf" (\(Positive n) as -> yields (Pipe.each as .| Pipe.chunksOf n) (groups n (as :: [Int]))),
          testProperty "zipWith" (\as bs -> yields (Pipe.zipWith (,) (Pipe.each as) (Pipe.each bs)) (zip as bs :: [(Int, Int)])),
          testProperty "unfold" (\(NonNegative n) -> yields (Pipe.unfold (\k -> pure (if k == n then Nothing else Just (k, k + 1))) 0) [0 .. n - 1 :: Int]),
          testProperty "fold" (\as -> results (Pipe.each as .| Pipe.fold (flip (:)) []) (reverse (as :: [Int]))),
          testProperty "foldM" (\as -> results (Pipe.each as .| Pipe.foldM (\s a -> pure (a : s)) []) (reverse (as :: [Int]))),
          testProperty "toList" (\as -> results (Pipe.each as .| Pipe.toList) (as :: [Int])),
          testProperty "drain" (\as -> results (Pipe.each (as :: [Int]) .| Pipe.drain) ())
        ],
      testGroup
        "bytes"
        [ testProperty "lines, however they are cut" $ \cs -> yields (Pipe.each cs .| Pipe.lines) (C.lines (B.concat cs)),
          testProperty "unlines after lines" $ \cs ->
            results (Pipe.each cs .| Pipe.lines .| Pipe.unlines .| (B.concat <$> Pipe.toList)) (C.unlines (C.lines (B.concat cs))),
          testProperty "a line over the limit, and where it begins" $ \cs (NonNegative limit) ->
            Q.monadicIO $ do
              r <- Q.run (try (Pipe.runList (Pipe.each cs .| Pipe.linesUpTo limit)))
              let whole = C.lines (B.concat cs)
                  (good, bad) = span ((<= limit) . B.length) whole
              Q.assert (fmap fst r == if null bad then Right whole else Left (ItemTooLong (sum (map ((+ 1) . B.length) good)) limit)),
          testCase "lines before one over the limit are yielded" $ do
            seen <- newIORef []
            r <- try (Pipe.runInto (\l -> modifyIORef seen (l :)) (Pipe.each (map C.pack ["a\nbc\nde", "fghi"]) .| Pipe.linesUpTo 4))
            r @?= Left (ItemTooLong 5 4)
            readIORef seen >>= (@?= map C.pack ["bc", "a"]),
          testProperty "into a file and back" $ \cs -> monadicIO $ do
            back <- Q.run $
              withFileName $ \path -> do
                Pipe.runPipe (Pipe.each cs .| Pipe.toFile path)
                Pipe.runPipe (Pipe.fromFile path .| Pipe.toList)
            Q.assert (B.concat back == B.concat cs),
          testProperty "through handles, which stay open" $ \cs -> monadicIO $ do
            back <- Q.run $
              withFileName $ \path -> do
                withBinaryFile path WriteMode (\handle -> Pipe.runPipe (Pipe.each cs .| Pipe.toHandle handle) >> B.hPut handle (C.pack "end"))
                withBinaryFile path ReadMode (\handle -> Pipe.runPipe (Pipe.fromHandle handle .| Pipe.toList) <* B.hGetSome handle 1)
            Q.assert (B.concat back == B.concat cs <> C.pack "end"),
          testCase "receive until empty, send each" $ do
            incoming <- newIORef (map C.pack ["one", "two", "", "never"])
            outgoing <- newIORef []
            Pipe.runPipe (Pipe.receiving (atomicModifyIORef incoming (\cs -> (tail cs, head cs))) .| Pipe.sending (\c -> modifyIORef outgoing (c :)))
            readIORef outgoing >>= (@?= map C.pack ["two", "one"])
        ],
      testCase "PipeException catches each of the package's exceptions" $
        forM_ [toException (ItemTooLong 5 4), toException (StageFailed "parse" (toException (userError "x")))] $ \e@(SomeException own) -> do
          Left caught <- try (Pipe.runPipe (liftIO (throwIO e)))
          displayException (caught :: PipeException) @?= displayException own,
      testCase "a pipe runs as often as one likes" $ do
        let p = Pipe.each [1 .. 3 :: Int] .| Pipe.map (+ 1) .| Pipe.toList
        a <- Pipe.runPipe p
        b <- Pipe.runPipe p
        (a, b) @?= ([2, 3, 4], [2, 3, 4]),
      testCase "awaiting after the end is the end again" $ do
        r <- Pipe.runPipe (yield 'a' .| ((,,) <$> Pipe.await <*> Pipe.await <*> Pipe.await))
        r @?= (Just 'a', Nothing, Nothing),
      testCase "awaiting without input is the end" (Pipe.runPipe (void Pipe.await) >>= (@?= ()))
    ]

same :: String -> Pipe Int Int () -> ([Int] -> [Int]) -> TestTree
same name p f = testProperty name (\as -> yields (Pipe.each as .| p) (f as))

yields :: (Eq o, Show o) => Pipe Void o () -> [o] -> Property
yields p expected = ioProperty ((=== expected) . fst <$> Pipe.runList p)

results :: (Eq r, Show r) => Pipe Void Void r -> r -> Property
results p expected = ioProperty ((=== expected) <$> Pipe.runPipe p)

groups :: Int -> [a] -> [[a]]
groups _ [] = []
groups n as = take n as : groups n (drop n as)

withFileName :: (FilePath -> IO a) -> IO a
withFileName body = do
  dir <- getTemporaryDirectory
  (path, handle) <- openBinaryTempFile dir "pipe"
  hClose handle
  body path `finally` removeFile path

instance Arbitrary B.ByteString where
  arbitrary = C.pack <$> listOf (frequency [(4, elements "abc"), (1, pure '\n'), (1, elements "\NUL\r\255")])
  shrink = map B.pack . shrink . B.unpack
