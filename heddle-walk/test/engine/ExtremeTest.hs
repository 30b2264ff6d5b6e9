-- |
-- Module      : ExtremeTest
-- Description : Deep, wide, forbidden, vanishing; few descriptors
-- Stability   : test
module ExtremeTest (tests, child) where

import Control.Monad (forM_, void, when)
import Data.ByteString.Char8 qualified as Char8
import Heddle.Prim.Atomic (fetchAdd, newWords, readWord)
import Heddle.Walk
import System.Environment (getExecutablePath)
import System.Exit (ExitCode (..), exitWith)
import System.Posix.ByteString (rename, setFileMode)
import System.Posix.User (getEffectiveUserID)
import System.Process (callProcess)
import Test.Tasty
import Test.Tasty.HUnit
import Trees
import Walks

tests :: TestTree
tests =
  testGroup
    "extremes"
    [ testCase "a chain beyond PATH_MAX" deepChain,
      testCase "a chain of 5,000 directories takes no stack and few descriptors" veryDeep,
      testCase "100,000 entries in one directory" wide,
      testCase "twenty-four descriptors for the whole process" fewDescriptors,
      testCase "unreadable directories" unreadable,
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
  chain top 5000
  forM_ [o {walkOutput = -1} | o <- modes, walkDescriptors o == 0] $ \o -> do
    visits <- newWords 1
    before <- openDescriptors
    void . walkAs o [top] $ \_ -> Descend <$ fetchAdd visits 0 1
    readWord visits 0 >>= (@?= 14999)
    openDescriptors >>= (@?= before)

walkAs :: WalkOptions -> [RawPath] -> Visitor -> IO WalkResult
walkAs o = if walkOrder o == Sorted then walkOrdered o else walk o

wide :: IO ()
wide = withTemporary "wide" $ \top -> do
  callProcess "sh" ["-c", "cd " ++ Char8.unpack top ++ " && seq -f 'entry number %.0f' 100000 | xargs -d '\\n' touch"]
  forM_ [1, 500, 99999 :: Int] $ \i ->
    makeDirectory (top </> Char8.pack ("directory " ++ show i))
  theirs <- found [Char8.unpack top]
  forM_ [o | o <- modes, walkDescriptors o == 0] $ \o -> do
    ours <- walked o [top]
    assertBool (show o) (sameSet ours theirs)
    when (walkOrder o == Sorted) $
      assertBool "sorted" (records (outcomeOutput ours) == inOrder (walkPostOrder o) (records (outcomeOutput theirs)))

-- | What this executable does for 'fewDescriptors' and 'unreadable'.
child :: [String] -> IO ()
child arguments = do
  result <- (if "sorted" `elem` arguments then walkOrdered else walk) o roots printing
  exitWith (if walkFailed result then ExitFailure 1 else ExitSuccess)
  where
    o = defaultWalkOptions {walkPostOrder = "-depth" `elem` arguments}
    roots = [Char8.pack a | a@('/' : _) <- arguments]

fewDescriptors :: IO ()
fewDescriptors = withTemporary "few" $ \top -> do
  chain top 300
  theirs <- found [Char8.unpack top]
  self <- getExecutablePath
  forM_ [["any"], ["sorted"], ["any", "-depth"], ["sorted", "-depth"]] $ \how -> do
    ours <- ran "sh" (["-c", "ulimit -n 24; exec \"$@\"", "sh", self, "child"] ++ how ++ [Char8.unpack top])
    assertBool (show (how, outcomeMessages ours)) (sameSet ours theirs)

-- As nobody, if we are root; the directory must be one that nobody may pass through.
unreadable :: IO ()
unreadable = withTemporary "dark" $ \top -> do
  build top [Directory (Char8.pack "dark") [File (Char8.pack "x")], Directory (Char8.pack "a") [], Directory (Char8.pack "no\nread\255") []]
  setFileMode (top </> Char8.pack "dark") 0
  setFileMode (top </> Char8.pack "no\nread\255") 0o100
  root <- (== 0) <$> getEffectiveUserID
  self <- getExecutablePath
  -- The build folder may be closed to nobody.
  withTemporary "self" $ \place -> do
    callProcess "cp" [self, Char8.unpack place ++ "/child"]
    forM_ [["any"], ["sorted"], ["any", "-depth"], ["sorted", "-depth"]] $ \how -> do
      let as program = if root then ("setpriv", ["--reuid=65534", "--clear-groups", program]) else (program, [])
          run program arguments = let (p, before) = as program in ran p (before ++ arguments)
          depth = filter (== "-depth") how
      ours <- run (Char8.unpack place ++ "/child") (["child"] ++ how ++ [Char8.unpack top])
      theirs <- run "find" ([Char8.unpack top] ++ depth ++ ["-print0"])
      assertBool (show (ours, theirs)) (sameSet ours theirs)
  setFileMode (top </> Char8.pack "dark") 0o700
  setFileMode (top </> Char8.pack "no\nread\255") 0o700

-- The visitor puts a link in the place of each directory that it sees.
swapped :: IO ()
swapped = forM_ [AnyOrder, Sorted] $ \order -> withTemporary "swap" $ \top -> do
  build top [Directory (Char8.pack "d") [File (Char8.pack "inside")]]
  makeDirectory (top </> Char8.pack "away")
  (ours, _) <- walkedWith defaultWalkOptions {walkOrder = order} [top] $ \entry -> do
    putPath entry 0
    depth <- visitDepth entry
    name <- visitNameBytes entry
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
    depth <- visitDepth entry
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
