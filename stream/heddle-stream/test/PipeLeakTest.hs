-- | Long runs, and pipes that run twice, leak nothing. Each scenario leaked in another library; the live
-- bytes are measured while it runs. A list that is not fused away is the test's own memory, and not
-- tested here.
module PipeLeakTest (tests) where

import Control.Exception (IOException)
import Control.Monad (forever, replicateM_, when)
import Control.Monad.IO.Class (liftIO)
import Data.IORef
import Heddle.Pipe (Pipe, Void, await, yield, (.|), (.||))
import Heddle.Pipe qualified as Pipe
import Heddle.Testkit.Heap (liveBytes)
import Heddle.Testkit.Judging (whenOptimised)
import Test.Tasty (DependencyType (..), TestTree, after, testGroup)
import Test.Tasty.HUnit (assertBool, testCase)

tests :: TestTree
tests =
  whenOptimised . testGroup "pipe leaks" . inTurn $
    [ flat "a source shared by two runs" shared,
      flat "a list in place" (\look -> Pipe.each [1 .. size] .| looking look .| Pipe.drain),
      flat "mapM_ over a range (conduit #370)" (\look -> mapM_ yield [1 .. size] .| looking look .| Pipe.drain),
      flat "effects only" (\look -> counting size (liftIO . look)),
      flat "forever (pipes #15)" $ \look ->
        mapM_ yield [1 .. size] .| (Pipe.tryP (forever (await >>= maybe (liftIO (ioError (userError "end"))) (liftIO . look))) >>= either (\e -> const (pure ()) (e :: IOException)) pure),
      flat "replicateM_ (conduit #511)" (\look -> replicateM_ size (yield ()) .| numbered look .| Pipe.drain),
      flat "binds nested to the left (conduit #496)" (\look -> foldl (\p n -> p *> yield n) (pure ()) [1 .. 1000] .| Pipe.concatMap (\n -> [(n - 1) * 200 + 1 .. n * 200]) .| looking look .| Pipe.drain),
      flat "brackets one after the other (pipes-safe #49)" $
        \look -> counting size (\n -> Pipe.bracketP (pure ()) pure (\_ -> yield n)) .| looking look .| Pipe.drain,
      flat "brackets inside a composition inside a bracket" $ \look ->
        Pipe.bracketP (pure ()) pure $ \_ ->
          Pipe.each [1 .. size] .| Pipe.concatMap Just .| forever' (await >>= mapM_ (\n -> Pipe.bracketP (pure ()) pure (\_ -> liftIO (look n)))),
      flat "compositions one after the other" $
        \look -> Pipe.each [1 .. size] .| forever' (Pipe.map id .| (await >>= mapM_ (liftIO . look))),
      flat "sources that are stopped, one after the other (streaming #36)" $
        \look -> counting (size `div` 4) $ \n ->
          Pipe.bracketP (pure ()) pure (\_ -> Pipe.each [4 * n - 3 ..]) .| Pipe.take 4 .| looking look .| Pipe.drain,
      flat "a handler" (\look -> Pipe.each [1 .. size] .| handled (looking look) .| Pipe.drain),
      flat "handlers one after the other" $
        \look -> Pipe.each [1 .. size] .| forever' (handled (await >>= mapM_ (liftIO . look))),
      flat "a name" (\look -> Pipe.each [1 .. size] .| Pipe.named "it" (looking look) .| Pipe.drain),
      flat "another thread" (\look -> Pipe.each [1 .. size] .|| looking look .| Pipe.drain),
      flat "many threads" (\look -> Pipe.each [1 .. size] .| Pipe.mapInParallel 2 pure .| looking look .| Pipe.drain),
      flat "two sources" (\look -> Pipe.zipWith const (Pipe.each [1 .. size]) (Pipe.each [1 .. size]) .| looking look .| Pipe.drain),
      flat "a source that skips a long part of its list" $ \look ->
        -- The list is made lazily by the consumer, and nothing else refers to it.
        Pipe.each [look] .| Pipe.concatMap (\f -> [(f, n) | n <- [1 .. size]]) .| Pipe.filter (\(_, n) -> n `rem` 10 == 0) .| Pipe.forEach (uncurry id)
    ]

size :: Int
size = 200000

-- | One pipe, shared by all runs.
shared :: (Int -> IO ()) -> Pipe Void Void ()
shared look = naturals .| looking look .| Pipe.drain

naturals :: Pipe Void Int ()
naturals = mapM_ yield [1 .. size]

looking :: (Int -> IO ()) -> Pipe Int Int ()
looking look = Pipe.mapM (\n -> n <$ look n)

numbered :: (Int -> IO ()) -> Pipe () () ()
numbered look = go 1
  where
    go n = await >>= maybe (pure ()) (\() -> liftIO (look n) *> yield () *> go (n + 1))

handled :: Pipe i o () -> Pipe i o ()
handled p = Pipe.catchP p (\e -> liftIO (ioError (e :: IOException)))

-- | From one to this number.
counting :: Int -> (Int -> Pipe i o ()) -> Pipe i o ()
counting last' body = go 1
  where
    go n = when (n <= last') (body n *> go (n + 1))

-- | Repeatedly, for this many values.
forever' :: Pipe Int o () -> Pipe Int o ()
forever' body = counting size (const body)

-- | The same pipe twice; in either run what is live does not grow.
flat :: String -> ((Int -> IO ()) -> Pipe Void Void ()) -> (String, IO ())
flat name pipe = (,) name $ do
  lives <- newIORef []
  let look n = when (n `rem` (size `div` 5) == 0) $ do
        live <- liveBytes
        modifyIORef' lives (live :)
      p = pipe look
  Pipe.runPipe p
  Pipe.runPipe p
  seen <- reverse <$> readIORef lives
  assertBool ("looked " ++ show (length seen) ++ " times") (length seen >= 8)
  let low = minimum seen
  assertBool ("live bytes: " ++ show seen) (all (< low + 1000000) seen)

-- | After all other tests, one after the other, so that nothing else allocates.
inTurn :: [(String, IO ())] -> [TestTree]
inTurn cases = zipWith turn ("$0 !~ /pipe leaks/" : map (\(name, _) -> "$NF == \"" ++ name ++ "\"") cases) cases
  where
    turn before (name, body) = after AllFinish before (testCase name body)
