-- | When resources are released, what handlers catch, and which stage's name failures carry.
module PipeReleaseTest (tests) where

import Control.Concurrent (forkIO, killThread, newEmptyMVar, putMVar, takeMVar)
import Control.Exception
import Control.Monad (forever, void)
import Control.Monad.IO.Class (liftIO)
import Data.IORef
import Heddle.Coroutine (awaitT, resume, runGenerator, toGenerator)
import Heddle.Pipe (Pipe, StageFailed (..), await, yield, (.|), (=>=))
import Heddle.Pipe qualified as Pipe
import System.Exit (ExitCode (..))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertFailure, testCase, (@?=))

type Note = String -> IO ()

{- HLINT ignore "Use void" -}
-- The dropped results are intended.

tests :: TestTree
tests =
  testGroup
    "pipe endings"
    [ testGroup
        "released"
        [ events "at the end of the bracket, not of the run" ["+a", "-a", "then"] $ \note ->
            Pipe.runPipe (opened note "a" (pure ()) *> act note "then"),
          events "upstream, before the composition goes on" ["+b", "+a", "1", "-b", "-a", "then"] $ \note ->
            Pipe.runPipe ((opened note "a" (Pipe.each "123") .| opened note "b" (await >>= mapM_ (\c -> act note [c]))) *> act note "then"),
          events "when take has had enough" ["+a", "-a", "then"] $ \note ->
            Pipe.runPipe (((opened note "a" (Pipe.each [1 :: Int ..]) .| Pipe.take 3) *> act note "then") .| Pipe.drain),
          events "several of one stage, last opened first" ["+a", "+b", "+c", "-c", "-b", "-a"] $ \note ->
            Pipe.runPipe (opened note "a" (opened note "b" (opened note "c" (yield ()))) .| void await),
          events "of several stages, last opened first" ["+c", "+b", "+a", "+d", "-d", "-a", "-b", "-c"] $ \note ->
            failing
              ( Pipe.runPipe
                  ( opened note "a" (yield () *> opened note "d" (liftIO (throwIO (userError "x"))))
                      .| opened note "b" (Pipe.map id)
                      .| opened note "c" Pipe.drain
                  )
              ),
          events "none that was not acquired" ["+a", "-a"] $ \note ->
            failing (Pipe.runPipe (opened note "a" (Pipe.bracketP (throwIO (userError "no")) (\() -> note "-b") (\_ -> pure ())))),
          events "all, when one cannot be" ["+a", "+b", "+c", "-c", "-b", "-a", "user error (-c)"] $ \note -> do
            let bad name = Pipe.bracketP (note ('+' : name)) (\_ -> note ('-' : name) >> throwIO (userError ('-' : name))) . const
            r <- try (Pipe.runPipe (bad "a" (bad "b" (bad "c" (yield ()))) .| void await))
            either (\e -> note (show (e :: IOException))) pure r,
          events "upstream of =>= at its own end" ["+a", "1", "drained", "-a", "then"] $ \note ->
            Pipe.runPipe ((opened note "a" (Pipe.each "12" *> act note "drained") =>= (await >>= mapM_ (\c -> act note [c]))) *> act note "then"),
          events "a source that is not needed any more" ["+l", "+r", "-r", "-l", "then"] $ \note ->
            Pipe.runPipe ((Pipe.zipWith (,) (opened note "l" (Pipe.each "ab")) (opened note "r" (Pipe.each "a")) *> act note "then") .| Pipe.drain),
          events "when the writer fails" ["+a", "-a"] $ \note ->
            failing (Pipe.runInto (\_ -> throwIO (userError "gone")) (opened note "a" (yield ()))),
          events "when the run is killed" ["+b", "+a", "-a", "-b", "killed"] $ \note -> do
            ready <- newEmptyMVar
            over <- newEmptyMVar
            thread <- forkIO $ do
              r <- try (Pipe.runPipe (opened note "a" (yield () *> liftIO (putMVar ready () >> forever (newEmptyMVar >>= takeMVar'))) .| opened note "b" Pipe.drain))
              note (either (\e -> if e == ThreadKilled then "killed" else show e) (const "ended") r)
              putMVar over ()
            takeMVar ready
            killThread thread
            takeMVar over,
          events "unmasked goes the body, masked the rest" ["MaskedInterruptible", "Unmasked", "MaskedInterruptible", "Unmasked"] $ \note -> do
            let state = getMaskingState >>= note . show
            Pipe.runPipe (Pipe.bracketP state (const state) (\_ -> liftIO state) *> liftIO state),
          events "finally" ["body", "end"] $ \note -> Pipe.runPipe (Pipe.finallyP (act note "body") (note "end"))
        ],
      testGroup
        "handled"
        [ events "what the body throws" ["+a", "-a", "caught"] $ \note ->
            Pipe.runPipe (Pipe.catchP (opened note "a" (liftIO (throwIO (userError "x")))) (\e -> const (act note "caught") (e :: IOException))),
          events "not what upstream throws" ["user error (up)"] $ \note -> do
            r <- try (Pipe.runPipe (liftIO (throwIO (userError "up")) .| Pipe.catchP (void (await :: Pipe () o (Maybe ()))) (\e -> const (act note "caught") (e :: IOException))))
            either (\e -> note (show (e :: IOException))) pure r,
          events "not what downstream throws" ["user error (down)"] $ \note -> do
            r <- try (Pipe.runPipe (Pipe.catchP (yield ()) (\e -> const (act note "caught") (e :: IOException)) .| (await >> liftIO (throwIO (userError "down")))))
            either (\e -> note (show (e :: IOException))) pure r,
          testCase "and the stage goes on with its input" $ do
            let stage = Pipe.tryP (await >>= mapM_ yield >> await >> liftIO (throwIO (userError "x"))) >>= \r -> either (\e -> const (Pipe.map (* 10)) (e :: IOException)) pure r
            (out, ()) <- Pipe.runList (Pipe.each [1 .. 5 :: Int] .| stage)
            out @?= [1, 30, 40, 50],
          testCase "nested handlers: the inner one first" $ do
            r <- Pipe.runPipe (Pipe.tryP (Pipe.tryP (liftIO (throwIO (userError "x")))))
            case r of
              Right (Left e) -> (e :: IOException) @?= userError "x"
              Left e -> assertFailure ("the outer one got " ++ show (e :: SomeException))
              Right (Right ()) -> assertFailure "nobody got it",
          testCase "not cancelling" $ do
            r <- try (Pipe.runPipe (Pipe.tryP (liftIO (throwIO ThreadKilled)) >>= either (\e -> const (pure "caught") (e :: SomeException)) pure))
            r @?= Left ThreadKilled,
          testCase "a handler in a long run keeps nothing" $ do
            n <- Pipe.runPipe (Pipe.each [1 .. 100000 :: Int] .| (Pipe.tryP (Pipe.fold (+) 0) >>= either (\e -> liftIO (throwIO (e :: IOException))) pure))
            n @?= 5000050000
        ],
      testGroup
        "named"
        [ testCase "the stage that failed" $ failedName (Pipe.named "a" (Pipe.each "abc") .| Pipe.named "b" (failAt 'b') .| Pipe.named "c" Pipe.drain) >>= (@?= Just "b"),
          testCase "a source" $ failedName (Pipe.named "a" (yield 'a' *> liftIO (throwIO (userError "x"))) .| Pipe.named "b" Pipe.drain) >>= (@?= Just "a"),
          testCase "a sink" $ failedName (Pipe.named "a" (Pipe.each "abc") .| Pipe.named "b" (await *> liftIO (throwIO (userError "x")))) >>= (@?= Just "b"),
          testCase "nobody, where it has no name" $ failedName (Pipe.named "a" (Pipe.each "abc") .| failAt 'b' .| Pipe.named "c" Pipe.drain) >>= (@?= Nothing),
          testCase "the inner name" $ failedName (Pipe.named "out" (Pipe.each "abc" .| Pipe.named "in" (failAt 'b')) .| Pipe.drain) >>= (@?= Just "in"),
          testCase "the outer name, where there is no inner one" $ failedName (Pipe.named "out" (Pipe.named "in" (Pipe.each "abc") .| failAt 'b') .| Pipe.drain) >>= (@?= Just "out"),
          testCase "who opened what cannot be released" $
            failedName (Pipe.named "a" (Pipe.bracketP (pure ()) (\_ -> throwIO (userError "x")) (\_ -> yield 'a')) .| void await) >>= (@?= Just "a"),
          testCase "on another thread" $ failedName (Pipe.buffered 2 (Pipe.named "a" (yield 'a' *> liftIO (throwIO (userError "x")))) .| Pipe.drain) >>= (@?= Just "a"),
          testCase "after a handler" $
            failedName (Pipe.named "out" ((Pipe.tryP (Pipe.named "in" (liftIO (throwIO (userError "x")))) :: Pipe i o (Either IOException ())) *> liftIO (throwIO (userError "y")))) >>= (@?= Just "out"),
          testCase "readable" $ displayException (StageFailed "sort" (toException (userError "x"))) @?= "stage sort failed: user error (x)",
          testCase "exits pass as they are" $ do
            r <- try (Pipe.runPipe (Pipe.named "a" (liftIO (throwIO (ExitFailure 2)))))
            r @?= (Left (ExitFailure 2) :: Either ExitCode ()),
          testCase "cancelling passes as it is" $ do
            r <- try (Pipe.runPipe (Pipe.named "a" (liftIO (throwIO UserInterrupt))))
            r @?= (Left UserInterrupt :: Either AsyncException ())
        ],
      testGroup
        "as coroutines"
        [ testCase "a transducer as a pipe" $ do
            r <- Pipe.runPipe (Pipe.each [1, 2, 3 :: Int] .| Pipe.fromTransducer (awaitT >>= \a -> (,) a <$> awaitT))
            r @?= (Just 1, Just 2),
          testCase "a pipe as a transducer" $ runGenerator (toGenerator (Pipe.toTransducer (5 <$ Pipe.each "abc"))) >>= (@?= ("abc", 5 :: Int)),
          events "dropped inside withTransducer" ["+a", "out", "-a", "then"] $ \note -> do
            Pipe.withTransducer (opened note "a" (Pipe.each "abc")) $ \t -> resume t >> note "out"
            note "then",
          events "failing while resumed" ["+a", "-a", "user error (x)"] $ \note -> do
            r <- try (runGenerator (toGenerator (Pipe.toTransducer (opened note "a" (yield 'a' *> liftIO (throwIO (userError "x")))))))
            either (\e -> note (show (e :: IOException))) (const (pure ())) r
        ]
    ]
  where
    takeMVar' v = takeMVar v :: IO ()

-- | With these events.
events :: String -> [String] -> (Note -> IO ()) -> TestTree
events name expected body = testCase name $ do
  seen <- newIORef []
  body (\e -> atomicModifyIORef' seen (\es -> (e : es, ())))
  readIORef seen >>= (@?= expected) . reverse

opened :: Note -> String -> Pipe i o r -> Pipe i o r
opened note name p = Pipe.bracketP (note ('+' : name)) (\_ -> note ('-' : name)) (const p)

act :: Note -> String -> Pipe i o ()
act note = liftIO . note

failing :: IO () -> IO ()
failing body =
  try body >>= \case
    Left e -> const (pure ()) (e :: IOException)
    Right () -> assertFailure "it did not fail"

failAt :: Char -> Pipe Char Char ()
failAt c = Pipe.mapM (\a -> if a == c then throwIO (userError "x") else pure a)

-- | Whom the runner's caller hears of.
failedName :: Pipe Pipe.Void Pipe.Void () -> IO (Maybe String)
failedName p =
  try (Pipe.runPipe p) >>= \case
    Right () -> assertFailure "it did not fail"
    Left e -> case fromException e of
      Just (StageFailed name _) -> pure (Just name)
      Nothing -> pure Nothing
