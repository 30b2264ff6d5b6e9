-- | The programs of "Pipeline examples", beside the system's grep; what the printed forms
-- would do; the components one by one.
module ArticleTest (tests) where

import Control.Concurrent (newEmptyMVar, putMVar, takeMVar)
import Control.Exception (IOException, evaluate, finally, try)
import Control.Monad (forM_, void)
import Control.Monad.Trans.Class (lift)
import Control.Monad.Trans.Writer.Strict (Writer, runWriter, tell)
import Data.Either (isLeft)
import Data.Functor.Identity (Identity (..))
import Data.List (isPrefixOf, tails)
import Data.Maybe (listToMaybe)
import Heddle.Coroutine hiding (interleave)
import Heddle.Coroutine.Components (Outcome (..))
import Heddle.Coroutine.Components qualified as C
import System.Directory (doesFileExist, getTemporaryDirectory, removeFile)
import System.IO (Handle, hClose, hGetContents, hPutStr, hSetBinaryMode, hSetEncoding, openTempFile, utf8)
import System.Mem (getAllocationCounter)
import System.Process (CreateProcess (..), StdStream (..), createProcess, proc, waitForProcess)
import Test.QuickCheck
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.HUnit (Assertion, assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck (QuickCheckMaxSize (..), QuickCheckTests (..), testProperty)

tests :: TestTree
tests =
  testGroup
    "components"
    [ testGroup
        "the article's programs"
        [ testCase "the lines that contain FIND ME" (onFile haystack (matching "FIND ME") >>= (@?= "2: FIND ME\nFIND ME, FIND ME\n")),
          testCase "the same with their numbers" (onFile haystack (numbered "FIND ME") >>= (@?= "2:2: FIND ME\n6:FIND ME, FIND ME\n")),
          testCase "are those of the manual" inTheManual,
          localOption (QuickCheckTests 100) . localOption (QuickCheckMaxSize 40) $
            testProperty "as grep and grep -n" beside,
          testCase "as grep and grep -n: no pattern, no text" (forM_ ["", "\n", "\n\n", "a", "a\n\n"] (asGrep "")),
          testCase "as grep and grep -n: a long line" (asGrep "ab" (concat (replicate 20000 "aac") ++ "ab\nb"))
        ],
      testGroup
        "as printed"
        [ testCase "lines come out without their ends" (onFile haystack (asPrinted C.line "FIND ME") >>= (@?= "2: FIND MEFIND ME, FIND ME")),
          testCase "the numbers are searched, too" (onFile "a\nb\n" (numberedAsPrinted C.line "2: ") >>= (@?= "2: b")),
          testCase "without edges there are no empty lines" (generated (fromGenerator (mapM_ yield "a\n\nb\n") =>= C.groupBy lineAsPrinted) @?= ["a", "b"]),
          testCase "so that numbers drift" (onFile haystack (numberedAsPrinted lineAsPrinted "FIND ME") >>= (@?= "2: 2: FIND ME4: FIND ME, FIND ME")),
          testCase "suppress cannot know the end" suppressAsPrinted
        ],
      testGroup
        "one by one"
        [ testCase "line" (map (grouped C.line) ["", "a", "a\n", "a\n\nb", "\n"] @?= [[], ["a"], ["a"], ["a", "", "b"], [""]]),
          testCase "what line sends right" (grouped (C.not C.line) "a\n\nb" @?= ["\n", "\n"]),
          testCase "substring: each occurrence is a section" (grouped (C.substring "ab") "ababxabab" @?= ["ab", "ab", "ab", "ab"]),
          testCase "substring: of two that overlap the first" (grouped (C.not (C.substring "aba")) "xababay" @?= ["x", "bay"]),
          testCase "substring: an occurrence in a false start" (grouped (C.substring "aab") "aaab" @?= ["aab"]),
          testCase "substring: nothing is everywhere" (grouped (C.substring "") "ab" @?= ["", "", ""]),
          testCase "substring: the stream's own items" ownItems,
          testCase "and, or: empty sections of both are paired" (grouped (C.and C.line (C.or C.line (C.not C.line))) "a\n\nb" @?= ["a", "", "b"]),
          testCase "any, all" anyAndAll,
          testCase "any: its result" anyResult,
          testCase "ifThenElse: what comes of an item is out before the next" inOrder,
          testCase "ifThenElse: a branch that has ended" (generated (fromGenerator (mapM_ yield "a\nb\nc") =>= C.ifThenElse C.line (awaitT >>= mapM_ yieldT) (lift121 id)) @?= "a\n\n"),
          testCase "ifThenElse: whichever step comes first" backwards,
          testCase "ifThenElse: a splitter and a branch at once" meeting,
          testCase "joinTransduced: a side goes on when it is awaited" onDemand,
          testCase "joinTransduced: sides without an end" endless,
          testCase "joinTransduced: both are given all" givenAll,
          testCase "naturals, toString, repeat, concatenate" (generated (C.joinTransduced (fromGenerator C.naturals =>= C.toString) (C.joinTransduced (fromGenerator (C.repeat ".")) (fromGenerator (mapM_ yield ["a", "b"])) C.zipMonoids) C.zipMonoids =>= C.concatenate) @?= "1.a2.b"),
          testCase "readFile" reading
        ],
      testGroup
        "cost"
        [ testCase "substring is linear in the pattern" (linear 1000 (\n -> length (grouped (C.substring (replicate n 'a' ++ "b")) (concat (replicate 10 (replicate n 'a' ++ "c")))))),
          testCase "and is linear in what waits" (linear 300 (\n -> length (grouped (C.and (C.substring (replicate n 'a')) C.line) (replicate (10 * n) 'a')))),
          testCase "append is linear in what waits" (linear 1000 (\n -> length (generated (fromGenerator (mapM_ yield [1 .. n]) =>= C.joinTransduced (lift121 id) (lift121 id) C.append)))),
          testCase "groupBy is linear in a section" (linear 1000 (\n -> length (grouped C.line (replicate n 'a'))))
        ]
    ]

-- The programs ---------------------------------------------------------------

-- | The lines that contain these characters.
matching :: String -> FilePath -> Generator Char IO ()
matching wanted file =
  void . toGenerator $
    fromGenerator (C.readFile file)
      =>= C.groupBy C.line
      =>= C.ifThenElse (C.any (C.substring wanted)) (lift121 (++ "\n")) (fromIteratee C.suppress)
      =>= C.concatenate

-- | The same with line numbers. A line that does not contain the characters is made empty
-- before it gets its number, so that numbers are not searched; lines without an end are dropped.
numbered :: String -> FilePath -> Generator Char IO ()
numbered wanted file =
  void . toGenerator $
    C.joinTransduced numbers marked C.zipMonoids
      =>= C.ifThenElse (C.any (C.substring "\n")) (lift121 id) (fromIteratee C.suppress)
      =>= C.concatenate
  where
    numbers =
      C.joinTransduced (fromGenerator C.naturals =>= C.toString) (fromGenerator (C.repeat ":")) C.zipMonoids
    marked =
      fromGenerator (C.readFile file)
        =>= C.groupBy C.line
        =>= C.ifThenElse (C.any (C.substring wanted)) (lift121 (++ "\n")) (lift121 (const ""))

-- | As printed, with any splitter into lines.
asPrinted :: Splitter Char IO () -> String -> FilePath -> Generator Char IO ()
asPrinted aLine wanted file =
  void . toGenerator $
    fromGenerator (C.readFile file)
      =>= C.groupBy aLine
      =>= C.ifThenElse (C.any (C.substring wanted)) (lift121 id) (fromIteratee C.suppress)
      =>= C.concatenate

-- | The same; but for the parentheses, which do not match in print.
numberedAsPrinted :: Splitter Char IO () -> String -> FilePath -> Generator Char IO ()
numberedAsPrinted aLine wanted file =
  void . toGenerator $
    C.joinTransduced
      (C.joinTransduced (fromGenerator C.naturals =>= C.toString) (fromGenerator (C.repeat ": ")) C.zipMonoids)
      (fromGenerator (C.readFile file) =>= C.groupBy aLine)
      C.zipMonoids
      =>= C.ifThenElse (C.any (C.substring wanted)) (lift121 id) (fromIteratee C.suppress)
      =>= C.concatenate

-- | Without edges, as Listing 14 has it.
lineAsPrinted :: Monad m => Splitter Char m ()
lineAsPrinted = awaitT >>= mapM_ (\c -> (if c == '\n' then yieldRight c else yieldLeft c) >> lineAsPrinted)

haystack :: String
haystack = "one\n2: FIND ME\n\n\nfind me\nFIND ME, FIND ME"

onFile :: String -> (FilePath -> Generator Char IO ()) -> IO String
onFile text program = withText text (fmap fst . runGenerator . program)

withText :: String -> (FilePath -> IO a) -> IO a
withText text = withFileOf (\h -> hSetEncoding h utf8 >> hPutStr h text)

withFileOf :: (Handle -> IO ()) -> (FilePath -> IO a) -> IO a
withFileOf fill body = do
  folder <- getTemporaryDirectory
  (file, h) <- openTempFile folder "heddle-coroutine.txt"
  (fill h >> hClose h >> body file) `finally` removeFile file

-- | What the manual shows is what is tested here, and nothing else.
inTheManual :: Assertion
inTheManual = do
  here <- doesFileExist "docs/papers/coroutine-pipelines.md"
  let root = if here then "" else "../../"
  manual <- lines <$> readFile (root ++ "docs/papers/coroutine-pipelines.md")
  source <- lines <$> readFile (root ++ "stream/heddle-coroutine/test/ArticleTest.hs")
  let shown = blocks manual
  length shown @?= 2
  forM_ shown $ \block -> assertBool (unlines block) (any (block `isPrefixOf`) (tails source))
  where
    blocks text = case break (== "```haskell") text of
      (_, _ : rest) -> let (block, rest') = break (== "```") rest in block : blocks rest'
      _ -> []

beside :: Property
beside =
  forAll (listOf (elements "ab1:é")) $ \wanted -> forAll (listOf (frequency [(6, elements "ab1:é"), (2, pure '\n')])) $ \text ->
    ioProperty (asGrep (take 3 wanted) text)

asGrep :: String -> String -> IO ()
asGrep wanted text = withText text $ \file -> do
  ours <- fst <$> runGenerator (matching wanted file)
  system [wanted, file] >>= (ours @?=)
  ours' <- fst <$> runGenerator (numbered wanted file)
  system ["-n", wanted, file] >>= (ours' @?=)
  where
    system arguments =
      createProcess (proc "grep" (["-a", "-F"] ++ arguments)) {std_out = CreatePipe} >>= \case
        (_, Just h, _, process) -> do
          hSetEncoding h utf8
          printed <- hGetContents h
          _ <- evaluate (length printed)
          printed <$ waitForProcess process
        _ -> pure ""

suppressAsPrinted :: Assertion
suppressAsPrinted = do
  ended (runIdentity (fed 1000 printed)) @?= False
  ended (runIdentity (fed 1 C.suppress)) @?= True
  where
    printed :: Iteratee (Maybe Int) Identity ()
    printed = await >> printed
    fed :: Int -> Iteratee (Maybe Int) Identity () -> Identity (Either (Maybe Int -> Iteratee (Maybe Int) Identity ()) ())
    fed 0 i = resume i
    fed n i = resume i >>= either (\f -> fed (n - 1) (f Nothing)) (pure . Right)
    ended = either (const False) (const True)

-- One by one -----------------------------------------------------------------

generated :: Transducer Naught b Identity r -> [b]
generated = fst . runIdentity . runGenerator . toGenerator

grouped :: Splitter Char Identity () -> String -> [String]
grouped s text = generated (fromGenerator (mapM_ yield text) =>= C.groupBy s)

-- | Equal if their first parts are.
data Tagged = Tagged Int Char
  deriving stock (Show)

instance Eq Tagged where
  Tagged a _ == Tagged b _ = a == b

ownItems :: Assertion
ownItems =
  [[c | Tagged _ c <- as] | as <- generated (fromGenerator (mapM_ yield (zipWith Tagged [1, 1, 2, 1] ['a' ..])) =>= C.groupBy (C.substring [Tagged 1 '?', Tagged 2 '?']))]
    @?= ["bc"]

anyAndAll :: Assertion
anyAndAll = do
  sided (C.any C.line) @?= [False, True, True, True]
  sided (C.all C.line) @?= [True, True, False, False]
  sided (C.any (C.substring "")) @?= [True, True, True, True]
  where
    sided s = generated (fromGenerator (mapM_ yield ["", "a", "\n", "a\nb"]) =>= void (C.ifThenElse s (lift121 (const True)) (lift121 (const False))))

anyResult :: Assertion
anyResult = map results [[], ["ab"], ["ab", "abc"]] @?= [0, 2, 3]
  where
    counting n = awaitT >>= maybe (pure n) (\a -> yieldLeft a >> counting (n + 1))
    results as = snd (snd (runIdentity (runGenerator (toGenerator (fromGenerator (mapM_ yield as) =>= C.groupBy (C.any (counting (0 :: Int))))))))

-- | What happens, in order.
type Log = Writer [String]

inOrder :: Assertion
inOrder =
  snd (runWriter (fed "a\n" (C.ifThenElse C.line (branch "then") (branch "else"))))
    @?= ["awaits", "then gets 'a'", "yields 'a'", "yields 'A'", "awaits", "else gets '\\n'", "yields '\\n'", "yields 'A'", "awaits", "then ends", "else ends"]
  where
    branch :: String -> Transducer Char Char Log ()
    branch name = awaitT >>= maybe (lift (tell [name ++ " ends"])) (\c -> lift (tell [name ++ " gets " ++ show c]) >> yieldT c >> yieldT 'A' >> branch name)
    fed as t =
      resume t >>= \case
        Right _ -> pure ()
        Left (LeftF f) -> tell ["awaits"] >> fed (drop 1 as) (f (listToMaybe as))
        Left (RightF (b, t')) -> tell ["yields " ++ show b] >> fed as t'

-- | What comes out does not depend on the binder.
backwards :: Assertion
backwards = outputs (Binder (\f ma mb -> mb >>= \b -> ma >>= \a -> f a b)) @?= outputs sequentially
  where
    outputs :: Binder Identity -> String
    outputs binder = generated (fromGenerator (mapM_ yield "ab\n\nc\n") =>= C.ifThenElseBy binder C.line (liftStateless (\c -> [c, c])) (yieldT '<' >> lift121 (const '|')))

-- | In sequence, neither would end.
meeting :: Assertion
meeting = do
  a <- newEmptyMVar
  b <- newEmptyMVar
  let s = awaitT >>= maybe (pure ()) (\c -> yieldLeft c >> lift (putMVar a c >> takeMVar b) >> s)
      branch = awaitT >>= maybe (pure ()) (\c -> lift (putMVar b () >> takeMVar a) >>= \c' -> yieldT (c, c') >> branch)
  (got, _) <- runGenerator (toGenerator (fromGenerator (mapM_ yield "abc") =>= C.ifThenElseBy inParallel s branch (fromIteratee C.suppress)))
  got @?= zip "abc" "abc"

onDemand :: Assertion
onDemand = runWriter (runGenerator (toGenerator (C.joinTransduced (side "l") (side "r") turns))) @?= ((["l1", "r1", "l2"], (Stopped, Stopped, ())), ["l1", "r1", "l2"])
  where
    side :: String -> Transducer Naught String Log ()
    side name = mapM_ (\n -> let it = name ++ show n in lift (tell [it]) >> yieldT it) [1 :: Int, 2, 3]
    turns = mapM_ (\it -> it >>= mapM_ yieldT) [awaitLeft, awaitRight, awaitLeft]

endless :: Assertion
endless = runIdentity (runGenerator (toGenerator (C.joinTransduced (fromGenerator C.naturals) (fromGenerator (mapM_ yield [10, 20] >> pure 'x')) (C.combine (+))))) @?= ([11, 22], (Stopped :: Outcome (), Returned 'x', ()))

givenAll :: Assertion
givenAll = do
  joined C.append @?= [1, 2, 3, 10, 20, 30]
  joined C.interleave @?= [1, 10, 2, 20, 3, 30]
  joined (C.flipJoin C.append) @?= [10, 20, 30, 1, 2, 3]
  where
    joined :: Join Int Identity () -> [Int]
    joined j = generated (fromGenerator (mapM_ yield [1, 2, 3]) =>= C.joinTransduced (lift121 id) (lift121 (* 10)) j)

reading :: Assertion
reading = do
  forM_ ["", "a", "é\r\n\n", concat (replicate 5000 "käse\n")] $ \text -> do
    got <- withText text $ \file -> do
      (chars, ()) <- runGenerator (C.readFile file)
      -- It has been closed: GHC does not open for writing what is open for reading.
      chars <$ writeFile file ""
    got @?= text
  got <- withFileOf (\h -> hSetBinaryMode h True >> hPutStr h "a\xff\&b\xc3") (fmap fst . runGenerator . C.readFile)
  got @?= "a\xfffd\&b\xfffd"
  missing <- try (runGenerator (C.readFile "/nonexistent/file")) :: IO (Either IOException (String, ()))
  assertBool "an exception" (isLeft missing)

-- Cost -----------------------------------------------------------------------

-- | Ten times as much takes ten times as many bytes.
linear :: Int -> (Int -> Int) -> Assertion
linear n body = do
  _ <- bytes n
  one <- bytes n
  ten <- bytes (10 * n)
  assertBool (show one ++ " bytes, and " ++ show ten ++ " for ten times as much") (ten < 12 * one)
  where
    bytes k = do
      before <- getAllocationCounter
      _ <- evaluate (body k)
      after <- getAllocationCounter
      pure (before - after)
