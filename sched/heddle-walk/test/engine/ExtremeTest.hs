-- |
-- Module      : ExtremeTest
-- Description : Deep, wide, forbidden, vanishing; few descriptors
-- Stability   : test
module ExtremeTest (tests, child) where

import Control.Monad (forM_, void, when)
import Data.ByteString.Char8 qualified as Char8
import Heddle.Prim.Atomic (fetchAdd, newWords, readWord)
import Heddle.Prim.Exception (finally)
import Heddle.Walk
import System.Environment (getExecutablePath)
import System.Exit (ExitCode (..), exitWith)
import System.Posix.ByteString (changeWorkingDirectory, rename, setFileMode)
import System.Posix.User (getEffectiveUserID, setGroupID, setGroups, setUserID)
import System.Process (spawnProcess, waitForProcess)
import Test.Tasty
import Test.Tasty.HUnit
import Trees
import Walks

tests :: TestTree
tests =
  testGroup
    "extremes"
    [ testCase "a chain beyond PATH_MAX" deepChain,
      testCase "a chain of 2,500 directories takes no stack and few descriptors" veryDeep,
      testCase "30,000 entries in one directory" wide,
      testCase "twenty-four descriptors for the whole process" fewDescriptors,
      testCase "unreadable directories, from a folder that may be closed to nobody" unreadable,
      testCase "a directory that is a link by the time it is entered is not followed" swapped,
      testCase "what vanishes after it was listed is not missed" vanished,
      testCase "an empty directory, and a file as a starting point" small
    ]

modes :: [WalkOptions]
modes =
  [ defaultWalkOptions {walkOrder = order, walkPostOrder = post, walkDescriptors = descriptors}
    | order <- [AnyOrder, Sorted],
      post <- [False, True],
      descriptors <- [0, 12]
  ]

words' :: WalkOptions -> [String]
words' o = ["-depth" | walkPostOrder o]

-- | From the bottom up, by renaming, so that no path is long; a file at each level.
chain :: Char8.ByteString -> Int -> IO ()
chain top n = do
  makeDirectory (top </> Char8.pack "d")
  forM_ [2 .. n] $ \_ -> do
    makeDirectory (top </> Char8.pack "next")
    makeFile (top </> Char8.pack "next/a")
    makeDirectory (top </> Char8.pack "next/e")
    rename (top </> Char8.pack "d") (top </> Char8.pack "next/d")
    rename (top </> Char8.pack "next") (top </> Char8.pack "d")

deepChain :: IO ()
deepChain = withTemporary "deep" $ \top -> do
  chain top 2200
  forM_ modes $ \o -> do
    ours <- walked o [top]
    theirs <- found (Char8.unpack top : words' o)
    assertBool (show o) (sameSet ours theirs)

veryDeep :: IO ()
veryDeep = withTemporary "abyss" $ \top -> do
  chain top 2500
  forM_ [o {walkOutput = -1} | o <- modes, walkDescriptors o == 0] $ \o -> do
    visits <- newWords 1
    before <- openDescriptors
    void . walkAs o [top] $ \_ -> Descend <$ fetchAdd visits 0 1
    readWord visits 0 >>= (@?= 7499)
    openDescriptors >>= (@?= before)

walkAs :: WalkOptions -> [RawPath] -> Visitor -> IO WalkResult
walkAs o = if walkOrder o == Sorted then walkOrdered o else walk o

wide :: IO ()
wide = withTemporary "wide" $ \top -> do
  forM_ [1 .. 30000 :: Int] $ \i ->
    makeFile (top </> Char8.pack ("entry number " ++ show i))
  forM_ [1, 500, 29999 :: Int] $ \i ->
    makeDirectory (top </> Char8.pack ("directory " ++ show i))
  theirs <- found [Char8.unpack top]
  forM_ [o | o <- modes, walkDescriptors o == 0] $ \o -> do
    ours <- walked o [top]
    assertBool (show o) (sameSet ours theirs)
    when (walkOrder o == Sorted) $
      assertBool "sorted" (records (outcomeOutput ours) == inOrder (walkPostOrder o) (records (outcomeOutput theirs)))

-- | What this executable does for 'fewDescriptors' and 'unreadable'.
child :: [String] -> IO ()
child = \case
  "nobody" : more -> becomeNobody >> child more
  "find" : arguments -> spawnProcess "find" arguments >>= waitForProcess >>= exitWith
  arguments -> do
    result <- (if "sorted" `elem` arguments then walkOrdered else walk) o roots printing
    exitWith (if walkFailed result then ExitFailure 1 else ExitSuccess)
    where
      o = defaultWalkOptions {walkPostOrder = "-depth" `elem` arguments}
      roots = [Char8.pack a | a@('/' : _) <- arguments]

-- If we are root, who may read everything. And to where anybody may be: GNU find complains
-- when it cannot return to the folder that it was started in.
becomeNobody :: IO ()
becomeNobody = do
  changeWorkingDirectory (Char8.pack "/")
  root <- (== 0) <$> getEffectiveUserID
  when root (setGroups [] >> setGroupID nobody >> setUserID nobody)
  where
    nobody :: Num a => a
    nobody = 65534

fewDescriptors :: IO ()
fewDescriptors = withTemporary "few" $ \top -> do
  chain top 300
  theirs <- found [Char8.unpack top]
  self <- getExecutablePath
  forM_ [["any"], ["sorted"], ["any", "-depth"], ["sorted", "-depth"]] $ \how -> do
    -- Without the runtime's timer, which opens its descriptor when its thread first gets to
    -- run, and ends the process if there is none left.
    ours <- ranAlone "sh" (["-c", "ulimit -n 24; exec \"$@\"", "sh", self, "child", "+RTS", "-V0", "-RTS"] ++ how ++ [Char8.unpack top])
    assertBool (show (how, outcomeMessages ours)) (sameSet ours theirs)

-- This executable becomes nobody itself: its own folder may be closed to nobody, too.
unreadable :: IO ()
unreadable = withTemporary "dark" $ \top -> do
  build top [Directory (Char8.pack "dark") [File (Char8.pack "x")], Directory (Char8.pack "a") [], Directory (Char8.pack "no\nread\255") []]
  setFileMode (top </> Char8.pack "dark") 0
  setFileMode (top </> Char8.pack "no\nread\255") 0o100
  self <- getExecutablePath
  let compared = forM_ [["any"], ["sorted"], ["any", "-depth"], ["sorted", "-depth"]] $ \how -> do
        let depth = filter (== "-depth") how
        -- Without the timer, which complains in GHC 9.10 when a change of the user interrupts it.
        ours <- ran self (["child", "+RTS", "-V0", "-RTS", "nobody"] ++ how ++ [Char8.unpack top])
        theirs <- ran self (["child", "+RTS", "-V0", "-RTS", "nobody", "find", Char8.unpack top] ++ depth ++ ["-print0"])
        assertBool (show (ours, theirs)) (sameSet ours theirs)
      -- So that it can be removed.
      opened = forM_ ["dark", "no\nread\255"] $ \name -> setFileMode (top </> Char8.pack name) 0o700
  compared `finally` opened

-- The visitor puts a link in the place of each directory that it sees.
swapped :: IO ()
swapped = forM_ [AnyOrder, Sorted] $ \order -> withTemporary "swap" $ \top -> do
  build top [Directory (Char8.pack "d") [File (Char8.pack "inside")]]
  makeDirectory (top </> Char8.pack "away")
  (ours, _) <- walkedWith defaultWalkOptions {walkOrder = order} [top] $ \entry -> do
    putPath entry 0
    depth <- entryDepth entry
    name <- entryNameBytes entry
    when (depth == 1 && name == Char8.pack "d") $ do
      rename (top </> Char8.pack "d") (top </> Char8.pack "away/d")
      makeLink (top </> Char8.pack "away/d") (top </> Char8.pack "d")
    pure (if name == Char8.pack "away" then Prune else Descend)
  filter (Char8.isSuffixOf (Char8.pack "/d/inside")) (records (outcomeOutput ours))
    @?= []
  outcomeStatus ours @?= 1

vanished :: IO ()
vanished = forM_ modes $ \o -> withTemporary "vanish" $ \top -> do
  build top [Directory (Char8.pack "one") [], Directory (Char8.pack "two") []]
  (ours, _) <- walkedWith o {walkDistrustTypes = True} [top] $ \entry -> do
    depth <- entryDepth entry
    when (depth == 0 && not (walkPostOrder o)) $ do
      removeTree (top </> Char8.pack "one")
    when (depth == 1) (mapM_ (removeTree . (top </>) . Char8.pack) ["one", "two"])
    Descend <$ putPath entry 0
  outcomeMessages ours @?= Char8.empty
  outcomeStatus ours @?= 0

small :: IO ()
small = withTemporary "small" $ \top -> do
  makeFile (top </> Char8.pack "f")
  makeDirectory (top </> Char8.pack "e")
  forM_ modes $ \o -> do
    ours <- walked o [top </> Char8.pack "f", top </> Char8.pack "e"]
    records (outcomeOutput ours) @?= [top </> Char8.pack "f", top </> Char8.pack "e"]
    nothing <- walked o []
    nothing @?= Outcome Char8.empty Char8.empty 0
