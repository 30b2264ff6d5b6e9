-- | What a run opens is closed exactly once, and as early as possible.
module FlowRunTest (tests) where

import Control.Concurrent (forkIOWithUnmask, killThread, newEmptyMVar, putMVar, takeMVar, yield)
import Control.Exception (ErrorCall (..), IOException, SomeException, evaluate, finally, getMaskingState, mask_, throwIO, try)
import Control.Exception qualified as E
import Control.Monad (forM_, replicateM_, void, when)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import Heddle.Flow (Source, into, run, (|>))
import Heddle.Flow qualified as Flow
import System.Directory (getTemporaryDirectory, removeFile)
import System.IO (IOMode (..), hClose, openBinaryTempFile, withBinaryFile)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "runs"
    [ testCase "the example of the documentation" documented,
      testGroup
        "what is opened is closed"
        [ testCase "at the end" (closing (\s -> void (s `run` Flow.drain)) ["open", "close"]),
          testCase "when the sink has had enough" (closing (\s -> void (s `run` Flow.head)) ["open", "close"]),
          testCase "take 0 opens nothing" (closing (\s -> s |> Flow.take 0 `run` Flow.drain) []),
          testCase "a sink that wants nothing opens nothing" (closing (\s -> s `run` pure ()) []),
          testCase "when a stage throws" (closing (\s -> failing (s |> Flow.mapM (\x -> when (x == 3) (throwIO (ErrorCall "stage"))) `run` Flow.drain)) ["open", "close"]),
          testCase "when a pure stage throws" (closing (\s -> failing (void (s |> Flow.map (\x -> if x == 3 then error "pure" else x) `run` Flow.sum))) ["open", "close"]),
          testCase "when the sink throws" (closing (\s -> failing (s `run` Flow.mapM_ (\x -> when (x == 5) (throwIO (ErrorCall "sink"))))) ["open", "close"]),
          testCase "before the sink ends" endsAfterwards,
          testCase "the last one first" lastFirst,
          testCase "one after the other" inTurn,
          testCase "not, if opening fails" openingFails
        ],
      testCase "an exception of a stage is the run's" passesOut,
      testCase "the loop is not masked" unmasked,
      testCase "cancelled anywhere, closed once" cancelled,
      testCase "files, chunks and lines" files
    ]

documented :: IO ()
documented = do
  answer <- Flow.range 1 1000000 |> Flow.map (* 3) |> Flow.filter even |> Flow.take 10 `run` Flow.sum
  answer @?= 330

failing :: IO () -> IO ()
failing act =
  try act >>= \case
    Left (ErrorCall _) -> pure ()
    Right () -> assertFailure "nothing was thrown"

note :: IORef [String] -> String -> IO ()
note notes what = atomicModifyIORef' notes (\ns -> (what : ns, ()))

noted :: IORef [String] -> IO [String]
noted notes = reverse <$> readIORef notes

-- | A source of 1 to 10 that notes what it does.
scoped :: IORef [String] -> String -> Source Int
scoped notes name = Flow.bracketed (note notes ("open" ++ name)) (\() -> note notes ("close" ++ name)) (\() -> Flow.range 1 10)

closing :: (Source Int -> IO ()) -> [String] -> IO ()
closing act expected = do
  notes <- newIORef []
  act (scoped notes "")
  noted notes >>= (@?= expected)

endsAfterwards :: IO ()
endsAfterwards = do
  notes <- newIORef []
  n <- scoped notes "" |> Flow.mapM (\x -> when (x > 9) (note notes "ten") >> pure x) |> Flow.stateful (\t x -> (t + x, mempty)) pure 0 |> Flow.mapM (\t -> note notes "end" >> pure t) `run` Flow.sum
  n @?= 55
  -- A flow's end is part of its source.
  noted notes >>= (@?= ["open", "ten", "close", "end"])

lastFirst :: IO ()
lastFirst = do
  notes <- newIORef []
  got <- (scoped notes " outer" >>= \x -> (x *) <$> scoped notes " inner") |> Flow.take 13 `run` Flow.length
  got @?= 13
  noted notes >>= (@?= ["open outer", "open inner", "close inner", "open inner", "close inner", "close outer"])

inTurn :: IO ()
inTurn = do
  notes <- newIORef []
  got <- scoped notes " one" <> scoped notes " two" `run` Flow.length
  got @?= 20
  noted notes >>= (@?= ["open one", "close one", "open two", "close two"])

openingFails :: IO ()
openingFails = do
  notes <- newIORef []
  failing (Flow.bracketed (throwIO (ErrorCall "open")) (\() -> note notes "close") (\() -> Flow.range 1 10) `run` Flow.drain)
  noted notes >>= (@?= [])
  try (Flow.fileChunks "/nonexistent/file" `run` Flow.drain) >>= \case
    Left e -> void (evaluate (e :: IOException))
    Right () -> assertFailure "there is no such file"

passesOut :: IO ()
passesOut = do
  got <- try (Flow.range 1 10 |> Flow.mapM (\x -> if x == 7 then throwIO (ErrorCall "seven") else pure x) `run` Flow.sum)
  got @?= Left (ErrorCall "seven")

unmasked :: IO ()
unmasked = do
  states <- Flow.bracketed (pure ()) pure (\() -> Flow.range 1 1) |> Flow.mapM (const getMaskingState) `run` Flow.toList
  states @?= [E.Unmasked]

-- | At many points of a run: as often opened as closed, and nothing open when it has ended.
cancelled :: IO ()
cancelled = forM_ [1 .. 150 :: Int] $ \k -> do
  open <- newIORef (0 :: Int, 0 :: Int)
  begun <- newEmptyMVar
  ended <- newEmptyMVar
  let change f = atomicModifyIORef' open (\s -> (f s, ()))
      source = Flow.bracketed (change (\(now, all') -> (now + 1, all' + 1))) (\() -> change (\(now, all') -> (now - 1, all'))) (\() -> Flow.range 1 3)
      act = Flow.iterate (+ 1) (0 :: Int) |> Flow.concatMap (\x -> (x +) <$> source) `run` Flow.drain
  thread <- mask_ (forkIOWithUnmask (\unmask -> (try (unmask (putMVar begun () >> act)) :: IO (Either SomeException ())) >>= putMVar ended))
  takeMVar begun
  replicateM_ (k `mod` 7) yield
  killThread thread
  takeMVar ended >>= either (const (pure ())) (const (assertFailure "it has ended"))
  (now, _) <- readIORef open
  now @?= 0

files :: IO ()
files = do
  folder <- getTemporaryDirectory
  (path, h) <- openBinaryTempFile folder "flow"
  hClose h
  flip finally (removeFile path) $ do
    let texts = map (C.pack . show) [1 .. 50000 :: Int] ++ [B.empty, B.replicate 200000 97, B.pack [0, 255, 13], C.pack "no newline"]
        bytes = B.intercalate (C.pack "\n") texts
    Flow.toFile path (Flow.fromList texts |> Flow.number (0 :: Int) |> Flow.map (\(i, t) -> if i == 0 then t else B.cons 10 t))
    written <- B.readFile path
    assertBool "written as it was" (written == bytes)
    chunks <- Flow.fileChunks path `run` Flow.toList
    assertBool "read as it was" (B.concat chunks == bytes && all (\c -> B.length c <= 65536) chunks)
    ls <- Flow.fileLines path `run` Flow.toList
    assertBool "its lines" (ls == C.lines bytes)
    others <- Flow.fileChunks path |> Flow.lines `run` Flow.toList
    assertBool "its lines, as a flow" (others == ls)
    (count, longest) <- Flow.fileLines path `run` ((,) <$> Flow.length <*> (Flow.map B.length `into` Flow.maximum))
    (count, longest) @?= (length texts, Just 200000)
    -- The file is closed each time, or it could not be opened for writing in the end.
    first <- withBinaryFile path ReadMode (\h' -> Flow.handleLines h' `run` Flow.head)
    first @?= Just (C.pack "1")
    some <- withBinaryFile path ReadMode (\h' -> Flow.handleChunks h' |> Flow.map B.length `run` Flow.sum)
    some @?= B.length bytes
    withBinaryFile path AppendMode (\h' -> Flow.unfoldM (\n -> pure (if n > 3 then Nothing else Just (C.pack (show n), n + 1))) (1 :: Int) `run` Flow.toHandle h')
    B.readFile path >>= (@?= bytes <> C.pack "123")
    (Flow.range 1 6 `run` Flow.product) >>= (@?= 720)
    three <- Flow.fileLines path |> Flow.take 3 `run` Flow.toList
    three @?= map C.pack ["1", "2", "3"]
    Flow.toFile path (Flow.fileLines path |> Flow.take 0)
    B.readFile path >>= (@?= B.empty)
