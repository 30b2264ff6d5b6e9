{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : StartsTest
-- Description : Starting points that are read while the search runs
module StartsTest
  ( startsTests,
  )
where

import Control.Monad (forM_, unless)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.List (sort)
import Heddle.Prim.Exception (bracket)
import Oracle
import System.Directory (createDirectoryIfMissing, getTemporaryDirectory, removePathForcibly)
import System.Exit (ExitCode (..))
import System.IO (Handle, hClose, hFlush, hSetBinaryMode)
import System.Posix.Signals (sigKILL, signalProcessGroup)
import System.Posix.Temp (mkdtemp)
import System.Process hiding (shell)
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, assertBool, assertFailure, testCase, (@?=))

-- | @-files0-from@ and its errors.
startsTests :: TestTree
startsTests =
  testGroup
    "starts"
    [ testCase "startsWereReadWhole: what one start brings comes before the next is read" $
        forM_ [[], ["--ordered"], ["--jobs", "1"], ["--jobs", "4"], ["--first"]] $ \options ->
          forM_ [[], ["-depth"], ["-printf", "%p\n"]] $ \expression ->
            withTree $ \tree -> running tree (options ++ ["-files0-from", "-"] ++ expression) $ \input output _ ->
              -- A name may come in parts, and several at once.
              forM_ (if options == ["--first"] then [("a\0", below "a")] else [("a\0", below "a"), ("b/", []), ("x\0", below "b/x"), ("b\0a/x\0b", below "b" ++ below "a/x"), ("\0", below "b")]) $ \(text, expected) -> do
                send input text
                found <- takeLines (if options == ["--first"] then 1 else length expected) output
                if options == ["--first"] then assertBool (show found) (length found == 1) else sort found @?= sort expected,
      testCase "startsWereReadWhole: in order, also behind one whose tree is large" $
        withTree $ \tree -> running tree ["--ordered", "-files0-from", "-"] $ \input output _ -> do
          send input "b\0a\0"
          takeLines 12 output >>= (@?= map Char8.pack (words "b b/1 b/2 b/x b/x/1 b/x/2 a a/1 a/2 a/x a/x/1 a/x/2"))
          send input "a/x\0"
          takeLines 3 output >>= (@?= map Char8.pack (words "a/x a/x/1 a/x/2")),
      testCase "startsWereReadWhole: starts without end" $
        withTree $ \tree -> forM_ ["", "--ordered", "-j1", "-depth"] $ \options -> do
          let (before, after) = if options == "-depth" then ("", options) else (options, "")
              endless action = unwords ["yes a | tr '\\n' '\\0' | $FIND", before, "-files0-from -", after, action]
          shell tree (endless "-maxdepth 0 | head -3") >>= (@?= Outcome "a\na\na\n" "" ExitSuccess)
          shell tree (endless "-name 1 -print -quit | head -c 4") >>= (@?= Outcome "a/1\n" "" ExitSuccess),
      testCase "startsWereReadWhole: memory is that of a few, however many there are" $
        withTree $ \tree -> forM_ [[], ["--ordered"]] $ \options ->
          running tree (options ++ ["-files0-from", "-", "-maxdepth", "0"]) $ \input output process -> do
            let block = Bytes.concat (replicate 1000 "a/x/1\0")
                rounds n = forM_ [1 .. n :: Int] $ \_ -> send input block >> takeBytes 6000 output
            rounds 20
            before <- peak process
            rounds 300
            after <- peak process
            assertBool (show (options, before, after)) (after - before < 8000),
      testCase "messages about starts come in their turn" $
        withTree $ \tree -> do
          let complaint = "find: ‘(standard input)’:"
          ended <- shell tree "printf 'a/1\\0\\0none\\0\\0\\0a/2\\0\\0b/1' | $FIND --ordered -files0-from - 2>&1"
          ended
            @?= Outcome
              ( utf8 . unlines $
                  ["a/1", complaint ++ "2" ++ empty, "find: ‘none’: No such file or directory", complaint ++ "4" ++ empty]
                    ++ [complaint ++ "5" ++ empty, "a/2", complaint ++ "7" ++ empty, "b/1"]
              )
              ""
              (ExitFailure 1),
      testCase "a directory for a file of starts, and one that is the file of answers" $
        withTree $ \tree -> do
          shell tree "$FIND -files0-from a" >>= (@?= Outcome "" (utf8 "find: ‘a’: read error: Is a directory\n") (ExitFailure 1))
          forM_ ["-ok", "-okdir"] $ \asking -> do
            ended <- shell tree ("printf a >list; $FIND -files0-from list " ++ asking ++ " true ';' <list")
            ended
              @?= Outcome
                ""
                (utf8 "find: option -files0-from: standard input must not refer to the same file when combined with -ok, -okdir: ‘list’\n")
                (ExitFailure 1)
            asked <- shell tree ("printf a/1 >list; echo n | $FIND -files0-from list " ++ asking ++ " true ';'")
            outcomeStatus asked @?= ExitSuccess,
      testCase "answers that cannot be read are none, as GNU find has it" $
        withTree $ \tree -> forM_ [("<a", ""), ("0>/dev/null", ""), ("</dev/null", ""), ("<yes", "a/1\n")] $ \(input, output) -> do
          -- It ends without a newline.
          writeFile (tree ++ "/yes") "y"
          ended <- shell tree ("$FIND a/1 b/1 -ok echo {} ';' " ++ input)
          ended @?= Outcome output "< echo ... a/1 > ? < echo ... b/1 > ? " ExitSuccess,
      testCase "names that no read brings whole" $
        withTree $ \tree -> do
          -- 262,144 is no multiple of 7, and a name is longer than a read.
          ended <- shell tree "yes a//x/1 | head -60000 | tr '\\n' '\\0' >list; $FIND -files0-from list -maxdepth 0 | sort -u; $FIND --ordered -files0-from list -maxdepth 0 | wc -l"
          ended @?= Outcome "a//x/1\n60000\n" "" ExitSuccess
          long <- shell tree "(head -c 600000 /dev/zero | tr '\\0' x; printf '\\0a/1\\0') | $FIND -files0-from - 2>&1 | tail -c 28"
          long @?= Outcome (utf8 "’: File name too long\na/1\n") "" ExitSuccess
    ]
  where
    empty = ": invalid zero-length file name"
    below top = map (top <>) (if Bytes.length top > 1 then ["", "/1", "/2"] else ["", "/1", "/2", "/x", "/x/1", "/x/2"])
    utf8 = Bytes.pack . concatMap encoded
    encoded c
      | c < '\x80' = [fromIntegral (fromEnum c)]
      | otherwise = let n = fromEnum c in map fromIntegral [0xe0 + n `div` 4096, 0x80 + n `div` 64 `mod` 64, 0x80 + n `mod` 64]

-- Two directories with two files, and one directory with two more.
withTree :: (FilePath -> IO a) -> IO a
withTree act = do
  temporary <- getTemporaryDirectory
  bracket (mkdtemp (temporary ++ "/heddle-find-starts-")) removePathForcibly $ \tree -> do
    forM_ ["a", "b"] $ \top -> do
      createDirectoryIfMissing True (tree ++ "/" ++ top ++ "/x")
      forM_ ["1", "2", "x/1", "x/2"] $ \file -> writeFile (tree ++ "/" ++ top ++ "/" ++ file) ""
    act tree

-- Our find with pipes that stay open; it must end by itself when its input does.
running :: FilePath -> [String] -> (Handle -> Handle -> ProcessHandle -> Assertion) -> Assertion
running tree arguments act = do
  (program, word) <- ourCommand
  let command = (proc program (word : arguments)) {cwd = Just tree, std_in = CreatePipe, std_out = CreatePipe}
  done <- timeout 120000000 . withCreateProcess command $ \input output _ process -> case (input, output) of
    (Just to, Just from) -> do
      mapM_ (`hSetBinaryMode` True) [to, from]
      act to from process
      hClose to
      rest <- Bytes.hGetContents from
      unless (Bytes.null rest) (assertFailure ("more output: " ++ show rest))
      waitForProcess process >>= (@?= ExitSuccess)
    _ -> assertFailure "no pipes"
  maybe (assertFailure ("no answer within two minutes: " ++ show arguments)) pure done

send :: Handle -> ByteString -> IO ()
send to text = Bytes.hPut to text >> hFlush to

takeLines :: Int -> Handle -> IO [ByteString]
takeLines n from = mapM (const (Bytes.hGetLine from)) [1 .. n]

takeBytes :: Int -> Handle -> IO ()
takeBytes n from = Bytes.hGet from n >>= \got -> Bytes.length got @?= n

-- The most memory that a process has taken, in KB.
peak :: ProcessHandle -> IO Int
peak process =
  getPid process >>= \case
    Nothing -> 0 <$ assertFailure "the search has ended"
    Just pid -> do
      status <- readFile ("/proc/" ++ show pid ++ "/status")
      case [read n | line <- lines status, ["VmHWM:", n, "kB"] <- [words line]] of
        n : _ -> pure n
        [] -> 0 <$ assertFailure status

-- A script, in which @$FIND@ is ours.
shell :: FilePath -> String -> IO Outcome
shell tree text = do
  (program, word) <- ourCommand
  let script = unlines ["export LC_ALL=C.UTF-8 FIND='" ++ program ++ " " ++ word ++ "'", "(" ++ text ++ ") 2>.errors"]
  (_, out, _, process) <- createProcess (proc "sh" ["-c", script]) {cwd = Just tree, std_out = CreatePipe, create_group = True}
  mapM_ (`hSetBinaryMode` True) out
  done <- timeout 120000000 ((,) <$> maybe (pure "") Bytes.hGetContents out <*> waitForProcess process)
  case done of
    Nothing -> do
      -- All of the pipeline: what writes without end must not stay.
      getPid process >>= mapM_ (signalProcessGroup sigKILL)
      assertFailure ("no end within two minutes: " ++ text)
    Just (output, status) -> (\errors -> Outcome (calledFind output) (calledFind errors) status) <$> Bytes.readFile (tree ++ "/.errors")
