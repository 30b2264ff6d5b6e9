{-# LANGUAGE OverloadedStrings #-}

-- | Out of descriptors: idle connections make room, accepting recovers, nothing is lost.
module PressureTest (tests) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (IOException, SomeException, finally, try)
import Control.Monad (forM, forM_, replicateM_, unless, void)
import Data.Either (isLeft)
import Data.IORef
import Data.List (isInfixOf)
import GHC.Clock (getMonotonicTimeNSec)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Program
import System.Directory (listDirectory)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Files (readSymbolicLink)
import System.Posix.Signals
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "out of descriptors"
    $ [ testCase ("filesFoundNoDescriptors: " ++ kind ++ ": 200 clients at once, 64 descriptors, every request answered") $
          withDirectory $ \d -> do
            writeFile (d </> "index.html") "home"
            withProgramIn [] ("/bin/sh", ["-c", "ulimit -n 64; exec heddle serve " ++ d ++ " --listen 127.0.0.1:0 --cores 2 " ++ options]) $ \program -> do
              crowd program
              crowd program
              void (eventually "a message" (programErr program) (\said -> all (`isInfixOf` said) ["EMFILE", "ulimit -n"]))
              -- Recovered: one more goes as ever.
              withClient (addressOf program) $ \client -> do
                say client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
                hearAnswer client >>= answersWith 200 "home"
              signal program sigTERM
              ends program >>= (@?= ExitSuccess)
        | (kind, options) <- [("epoll, a listener per core", ""), ("epoll, one acceptor", "--one-acceptor"), ("poll", "--backend poll")]
      ]
      ++ [ testCase "connectionsTookTheTimersDescriptor: GHC's timer is open before any connection is, however late it comes" $
             withDirectory $ \d -> do
               writeFile (d </> "index.html") "home"
               -- With -D the program is the process that was started.
               let quietly = ["-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=timerfd_create"]
                   late = ["-e", "inject=timerfd_create:delay_enter=1000000"]
               withProgramIn [] ("strace", quietly ++ late ++ ["heddle", "serve", d, "--listen", "127.0.0.1:0"]) $ \program -> do
                 let files = "/proc/" ++ show (programPid program) ++ "/fd"
                 open <- listDirectory files >>= traverse (try . readSymbolicLink . (files </>))
                 length [() | Right "anon_inode:[timerfd]" <- open :: [Either IOException FilePath]] @?= 1
                 signal program sigTERM
                 ends program >>= (@?= ExitSuccess)
         ]
      ++ [ testCase ("idleClientsShutNobodyOut: " ++ kind) $
             withDirectory $ \d -> do
               writeFile (d </> "index.html") "home"
               withProgramIn [] ("/bin/sh", ["-c", limit ++ "exec heddle serve " ++ d ++ " --listen 127.0.0.1:0 --cores 2 --idle 600 " ++ options]) $ \program -> do
                 -- More than fit, each answered and then silent; they stay connected.
                 let fill 0 = pure ()
                     fill n = withClient (addressOf program) $ \client -> do
                       answered client
                       fill (n - 1 :: Int)
                 fill 100
                 void (eventually "a message" (programErr program) (what `isInfixOf`))
                 signal program sigTERM
                 ends program >>= (@?= ExitSuccess)
                 lines' <- length . filter (what `isInfixOf`) . lines <$> programErr program
                 -- At most one a minute, though dozens were closed.
                 lines' @?= 1
           | (kind, limit, options, what) <-
               [ ("64 descriptors", "ulimit -n 64; ", "", "idle connections are closed"),
                 ("64 descriptors, one acceptor", "ulimit -n 64; ", "--one-acceptor", "idle connections are closed"),
                 ("a limit of connections", "", "--max-connections 20", "--max-connections")
               ]
         ]

answered :: Client -> IO ()
answered client = do
  say client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
  hearAnswer client >>= answersWith 200 "home"

-- All connect and ask before the first one hears its answer. A client that was not quick enough to ask, as on a busy machine, may
-- be closed for another one, as the manual says; it comes again.
crowd :: Program -> IO ()
crowd program = do
  ready <- newEmptyMVar
  go <- newEmptyMVar
  done <- forM [1 .. clients] $ \i -> do
    result <- newEmptyMVar
    _ <- forkIO (visit go (putMVar ready ()) >>= putMVar result . (,) i)
    pure result
  replicateM_ clients (takeMVar ready)
  putMVar go ()
  forM_ done $ \result -> do
    (i, r) <- readMVar result
    case r of
      Right answer -> answersWith 200 "home" answer
      Left e -> do
        ended <- tryReadMVar (programExit program)
        said <- programErr program
        let why = maybe "" (\code -> ", for the server ended: " ++ show code) ended
        unexpected ("client " ++ show i ++ " to be answered") (show e ++ why ++ "; it had said " ++ show said)
  where
    clients = 200 :: Int
    visit :: MVar () -> IO () -> IO (Either SomeException Answer)
    visit go tell = do
      begun <- getMonotonicTimeNSec
      asked <- newIORef begun
      told <- newIORef False
      let tellOnce = atomicModifyIORef' told (\before -> (True, before)) >>= \before -> unless before tell
      -- Also one that could not connect tells: the others wait for all.
      r <- flip finally tellOnce . try . withClient (addressOf program) $ \client -> do
        (say client "GET / HTTP/1.1\r\nHost: a\r\n\r\n" >> getMonotonicTimeNSec >>= writeIORef asked) `finally` tellOnce
        readMVar go
        hearAnswer client
      end <- readIORef asked
      if isLeft r && end - begun > milliseconds 10 then visit go (pure ()) else pure r
    milliseconds = (* 1000000)
