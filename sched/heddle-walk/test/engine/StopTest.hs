-- |
-- Module      : StopTest
-- Description : Walks that end early: hits, errors, cancelling, readers that go
-- Stability   : test
module StopTest (tests) where

import Control.Concurrent (forkIO, killThread, newEmptyMVar, putMVar, takeMVar)
import Control.Monad (forM_, replicateM_, when)
import Data.ByteString.Char8 qualified as Char8
import Data.Either (fromLeft)
import Heddle.Prim.Atomic (fetchAdd, newWords, readWord)
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Testkit.Descriptors (openDescriptor)
import Heddle.Walk
import System.Posix.IO (OpenMode (..), closeFd, createPipe)
import Test.Tasty hiding (after)
import Test.Tasty.HUnit
import Test.Tasty.QuickCheck hiding (Sorted)
import Trees
import Walks

tests :: TestTree
tests =
  testGroup
    "ending early"
    [ testProperty "quitting in sorted order cuts off what is to the right" quitCuts,
      testProperty "in any order one worker quits" quitOnce,
      testProperty "findFirst answers as the sequential search" firstIsFirst,
      testProperty "findFirst throws an error to its left, and sees none to its right" firstError,
      testCase "cancelling leaves no descriptor and no visitor" cancelling,
      testCase "a cancelled walk that waits for its reader ends" cancelledWriter,
      testCase "an exception of a visitor is thrown, and leaves no descriptor" throwing,
      testCase "a closed pipe ends the walk quietly" closedPipe,
      testCase "a full disk ends the walk and is told" fullDisk
    ]

quitCuts :: Forest -> NonNegative Int -> Bool -> Property
quitCuts (Forest trees) (NonNegative n) post =
  withMaxSuccess 150 . ioProperty . withTemporary "cut" $ \top -> do
    build top trees
    let options = defaultWalkOptions {walkOrder = Sorted, walkPostOrder = post}
    whole <- records . outcomeOutput <$> walked options [top]
    let hit = whole !! (n `rem` length whole)
    (ours, result) <- walkedWith options [top] $ \entry -> do
      putPath entry 0
      path <- entryPath entry
      pure (if path == hit then Quit else Descend)
    pure $
      records (outcomeOutput ours) === takeWhile (/= hit) whole ++ [hit]
        .&&. case walkFound result of
          Just (FoundHit path) -> path === hit
          other -> counterexample (show other) False

quitOnce :: Forest -> Property
quitOnce (Forest trees) = withMaxSuccess 100 . ioProperty . withTemporary "once" $ \top -> do
  build top trees
  (ours, _) <- walkedWith defaultWalkOptions [top] $ \entry -> do
    depth <- entryDepth entry
    if depth == 0 then pure Descend else Quit <$ putPath entry 0
  pure (length (records (outcomeOutput ours)) === (if null trees then 0 else 1))

-- Entries at chosen places are hits, or throw.
firstIsFirst :: Forest -> [NonNegative Int] -> [NonNegative Int] -> Property
firstIsFirst (Forest trees) hits bombs =
  withMaxSuccess 200 . ioProperty . withTemporary "first" $ \top -> do
    build top trees
    whole <- inOrder False . records . outcomeOutput <$> found [Char8.unpack top]
    let at is = [whole !! (i `rem` length whole) | NonNegative i <- is]
        expected = case [p | p <- whole, p `elem` at hits || p `elem` at bombs] of
          [] -> Right Nothing
          p : _
            | p `elem` at bombs -> Left (Bomb (show p))
            | otherwise -> Right (Just p)
    ours <- try . findFirst defaultWalkOptions top $ \entry -> do
      path <- entryPath entry
      when (path `elem` at bombs) (throwIO (Bomb (show path)))
      pure (path `elem` at hits)
    pure (ours === expected)

-- A link to itself is an error under 'FollowAll', whoever runs the test.
firstError :: Forest -> Bool -> Property
firstError (Forest trees) left =
  withMaxSuccess 100 . ioProperty . withTemporary "error" $ \top -> do
    makeDirectory (top </> middle)
    build (top </> middle) [t | t@(Directory _ _) <- [Directory (Char8.pack "x") (filter plain trees)]]
    let broken = top </> Char8.pack (if left then "a" else "z")
    makeLink broken broken
    makeFile (top </> middle </> Char8.pack "x" </> hit)
    ours <-
      try $ findFirst defaultWalkOptions {walkFollow = FollowAll} top (fmap (== hit) . entryNameBytes)
    pure $
      ours
        === if left
          then Left (WalkError broken ELOOP)
          else Right (Just (top </> middle </> Char8.pack "x" </> hit))
  where
    middle = Char8.pack "middle"
    hit = Char8.pack "a hit that no generator makes up"
    plain = \case
      Symlink _ _ -> False
      Directory _ inside -> all plain inside
      File _ -> True

newtype Bomb = Bomb String
  deriving stock (Eq, Show)

instance Exception Bomb

-- Ten directories of ten each.
grown :: Char8.ByteString -> IO ()
grown top = build top [Directory (number i) [Directory (number j) [File (number 0)] | j <- [0 .. 9]] | i <- [0 .. 9]]
  where
    number :: Int -> Char8.ByteString
    number = Char8.pack . show

cancelling :: IO ()
cancelling = withTemporary "cancel" $ \top -> do
  grown top
  forM_ [AnyOrder, Sorted] $ \order -> forM_ [False, True] $ \post -> forM_ [1, 7, 40, 150 :: Int] $ \n -> do
    before <- openDescriptors
    visits <- newWords 1
    inside <- newWords 1
    reached <- newEmptyMVar
    never <- newEmptyMVar
    ended <- newEmptyMVar
    thread <- forkIO $ do
      r <- try (walkedWith defaultWalkOptions {walkOrder = order, walkPostOrder = post} [top] (stuck n visits inside reached never))
      putMVar ended (either (\e -> Just (e :: AsyncException)) (const Nothing) r)
    takeMVar reached
    killThread thread
    takeMVar ended >>= (@?= Just ThreadKilled)
    after <- openDescriptors
    after @?= before
    readWord inside 0 >>= (@?= 0)
  where
    stuck n visits inside reached never _ = do
      i <- fetchAdd visits 0 1
      -- Counted in and out whenever the exception comes, as early as it may.
      bracket_ (fetchAdd inside 0 1) (fetchAdd inside 0 (-1)) $ do
        when (i == n) (putMVar reached ())
        when (i >= n) (takeMVar never)
      pure Descend

cancelledWriter :: IO ()
cancelledWriter = withTemporary "full" $ \top -> do
  grown top
  forM_ [AnyOrder, Sorted] $ \order -> do
    before <- openDescriptors
    (reading, writing) <- createPipe
    ended <- newEmptyMVar
    begun <- newEmptyMVar
    thread <- forkIO $ do
      r <- try . walkWith order defaultWalkOptions {walkOutput = fromIntegral writing, walkBuffer = 64} [top] $ \entry -> do
        depth <- entryDepth entry
        when (depth == 0) (putMVar begun ())
        replicateM_ 2000 (putPath entry 0)
        pure Descend
      putMVar ended (either (\e -> Just (e :: AsyncException)) (const Nothing) r)
    takeMVar begun
    killThread thread
    takeMVar ended >>= (@?= Just ThreadKilled)
    closeFd reading
    closeFd writing
    openDescriptors >>= (@?= before)

walkWith :: Order -> WalkOptions -> [RawPath] -> Visitor -> IO WalkResult
walkWith = \case
  AnyOrder -> walk
  Sorted -> walkOrdered

throwing :: IO ()
throwing = withTemporary "throw" $ \top -> do
  grown top
  forM_ [AnyOrder, Sorted] $ \order -> forM_ [False, True] $ \post -> do
    before <- openDescriptors
    r <- try . walkWith order defaultWalkOptions {walkOutput = -1, walkPostOrder = post} [top] $ \entry -> do
      depth <- entryDepth entry
      when (depth == 3) (throwIO (Bomb "deep"))
      pure Descend
    fromLeft (Bomb "nothing") r @?= Bomb "deep"
    openDescriptors >>= (@?= before)

closedPipe :: IO ()
closedPipe = withTemporary "pipe" $ \top -> do
  grown top
  forM_ [AnyOrder, Sorted] $ \order -> do
    (reading, writing) <- createPipe
    closeFd reading
    result <- walkWith order defaultWalkOptions {walkOutput = fromIntegral writing, walkBuffer = 64} [top] printing
    closeFd writing
    walkProblem result @?= Just EPIPE

fullDisk :: IO ()
fullDisk = withTemporary "disk" $ \top -> do
  grown top
  forM_ [AnyOrder, Sorted] $ \order -> do
    fd <- openDescriptor "/dev/full" WriteOnly
    result <- walkWith order defaultWalkOptions {walkOutput = fromIntegral fd} [top] printing
    closeFd fd
    walkProblem result @?= Just ENOSPC
