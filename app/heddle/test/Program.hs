-- | The heddle program, and other programs, as child processes under a deadline.
module Program
  ( -- * heddle serve
    Program (..),
    withProgram,
    withProgramIn,
    withProgramOn,
    withProgramSaying,
    addressOf,
    signal,
    readPid,
    endOf,
    ends,
    children,
    visiting,
    withReadsInterrupted,

    -- * Programs that end by themselves
    runTool,
    runToolIn,
    Ended (..),

    -- * Places
    withDirectory,
    contains,
    free,
  )
where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (IOException, SomeException, bracket, finally, throwIO, try)
import Control.Monad (unless, void)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Data.List (isInfixOf, isPrefixOf, stripPrefix)
import Data.Maybe (isJust, mapMaybe)
import GHC.Clock (getMonotonicTime)
import Heddle.Testkit.HttpClient (Client, say, withClient)
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr (..), tupleToHostAddress)
import System.Directory (findExecutable, listDirectory, removePathForcibly)
import System.Environment (getEnvironment)
import System.Exit (ExitCode (..))
import System.IO (Handle, hClose)
import System.Posix.Signals (Signal, sigKILL, signalProcess)
import System.Posix.Temp (mkdtemp)
import System.Posix.Types (ProcessID)
import System.Process
import System.Timeout (timeout)

-- | A running server, most often @heddle serve@.
data Program = Program
  { programPid :: !ProcessID,
    -- | The start-up line.
    programLine :: !String,
    -- | From the start-up line, in order.
    programUrls :: ![String],
    programOut :: !(IO String),
    programErr :: !(IO String),
    programExit :: !(MVar ExitCode),
    -- | Filled when nothing more can come from it.
    programSilent :: ![MVar ()]
  }

-- | Run @heddle@ with these arguments, wait until it serves, act; a program that still runs
-- then is killed.
withProgram :: [String] -> (Program -> IO a) -> IO a
withProgram arguments act = do
  heddle <- tool "heddle"
  withProgramIn [] (heddle, arguments) act

-- | The same with changes of the environment, and started by another program such as a shell.
withProgramIn :: [(String, String)] -> (FilePath, [String]) -> (Program -> IO a) -> IO a
withProgramIn = withProgramOn Inherit

-- | The same with this as its standard input.
withProgramOn :: StdStream -> [(String, String)] -> (FilePath, [String]) -> (Program -> IO a) -> IO a
withProgramOn = withProgramSaying ("Serving ", " stops)")

-- | The same for a server whose start-up line begins like this, and contains that.
withProgramSaying :: (String, String) -> StdStream -> [(String, String)] -> (FilePath, [String]) -> (Program -> IO a) -> IO a
withProgramSaying (beginning, part) input changes (path, arguments) act = bracket start stop $ \(out, err, pid, exit, silent) -> do
  let outputs = (++) <$> text out <*> text err
      text ref = C.unpack <$> readIORef ref
  _ <- eventually expected ((,) <$> outputs <*> tryReadMVar exit) (\(o, e) -> any served (lines o) || isJust e)
  began <- outputs
  case filter served (lines began) of
    line : _ -> act (Program pid line (filter url (words line)) (text out) (text err) exit silent)
    [] -> unexpected expected (show began)
  where
    expected = "a start-up line '" ++ beginning ++ "…'"
    served line = beginning `isPrefixOf` line && part `isInfixOf` line
    url w = any (`isPrefixOf` w) ["http://", "https://", "unix:"]
    start = do
      environment <- changed changes
      (_, Just o, Just e, process) <-
        createProcess (proc path arguments) {std_in = input, std_out = CreatePipe, std_err = CreatePipe, env = Just environment}
      Just pid <- getPid process
      (out, outEnded) <- collect o
      (err, errEnded) <- collect e
      exit <- newEmptyMVar
      _ <- forkIO (waitForProcess process >>= putMVar exit)
      pure (out, err, pid, exit, [outEnded, errEnded])
    stop (_, _, pid, exit, _) = do
      over <- tryReadMVar exit
      unless (isJust over) $ do
        _ <- try (signalProcess sigKILL pid) :: IO (Either IOException ())
        void (readMVar exit)

changed :: [(String, String)] -> IO [(String, String)]
changed changes = (changes ++) . filter ((`notElem` map fst changes) . fst) <$> getEnvironment

-- Everything a handle says, as it comes, and when it is over.
collect :: Handle -> IO (IORef B.ByteString, MVar ())
collect h = do
  ref <- newIORef B.empty
  ended <- newEmptyMVar
  let go = do
        bytes <- B.hGetSome h 65536
        unless (B.null bytes) (atomicModifyIORef' ref (\b -> (b <> bytes, ())) >> go)
  (ref, ended) <$ forkIO (go `finally` (hClose h >> putMVar ended ()))

-- | The address of the program's first URL.
addressOf :: Program -> SockAddr
addressOf program = case mapMaybe portOf (programUrls program) of
  port : _ -> SockAddrInet port (tupleToHostAddress (127, 0, 0, 1))
  [] -> error ("expected a URL with a port, but got " ++ show (programUrls program))
  where
    portOf u = do
      rest <- stripPrefix "http://" u
      case reads (reverse (takeWhile (/= ':') (reverse rest))) of
        [(n, "")] -> Just (fromIntegral (n :: Int))
        _ -> Nothing

-- | Send a signal.
signal :: Program -> Signal -> IO ()
signal program s = signalProcess s (programPid program)

-- | The program ends by itself, and all it said is there; its exit code.
ends :: Program -> IO ExitCode
ends program =
  timeout patience (readMVar (programExit program) <* mapM_ readMVar (programSilent program)) >>= maybe runsOn pure
  where
    runsOn = do
      ended <- tryReadMVar (programExit program)
      said <- (++) <$> programOut program <*> programErr program
      let how = maybe "it runs on" (\code -> "its output is still open after " ++ show code) ended
      unexpected "the program to end" (how ++ ", having said " ++ show said)

-- | The processes that a process's main thread has started.
children :: ProcessID -> IO [ProcessID]
children pid = map read . words . C.unpack <$> C.readFile ("/proc/" ++ show pid ++ "/task/" ++ show pid ++ "/children")

-- | Act on a connection; what is given to the action sends a request. A process that stops closes a connection a second after it
-- has fallen silent, so a client that took about as long before it asked, as on a busy machine, comes again.
visiting :: SockAddr -> (Client -> (B.ByteString -> IO ()) -> IO a) -> IO a
visiting address act = do
  seen <- getMonotonicTime >>= newIORef
  silent <- newIORef 0
  let asking client bytes = do
        say client bytes
        now <- getMonotonicTime
        before <- readIORef seen
        writeIORef silent (now - before)
        writeIORef seen now
  r <- try (withClient address (\client -> act client (asking client)))
  took <- readIORef silent
  case r of
    Right a -> pure a
    Left (e :: SomeException) -> if took > 0.9 then visiting address act else throwIO e

-- | How a program ended, and what it wrote.
data Ended = Ended
  { endedCode :: !ExitCode,
    endedOut :: !B.ByteString,
    endedErr :: !String
  }
  deriving stock (Show)

-- | Run a program to its end.
runTool :: FilePath -> [String] -> IO Ended
runTool = runToolIn []

-- | The same with changes of the environment.
runToolIn :: [(String, String)] -> FilePath -> [String] -> IO Ended
runToolIn changes name arguments = do
  path <- tool name
  environment <- changed changes
  (_, Just o, Just e, process) <- createProcess (proc path arguments) {std_in = NoStream, std_out = CreatePipe, std_err = CreatePipe, env = Just environment}
  out <- reading o
  err <- reading e
  r <- timeout (2 * patience) ((,,) <$> waitForProcess process <*> readMVar out <*> readMVar err)
  case r of
    Just (code, o', e') -> pure (Ended code o' (C.unpack e'))
    Nothing -> do
      terminateProcess process
      unexpected (unwords (name : arguments) ++ " to end") "it ran on"
  where
    reading h = do
      result <- newEmptyMVar
      result <$ forkIO (B.hGetContents h >>= putMVar result)

tool :: String -> IO FilePath
tool name =
  findExecutable name >>= \case
    Just path -> pure path
    Nothing
      | '/' `elem` name -> pure name
      | otherwise -> unexpected (name ++ " on the PATH") "it is not installed; run 'make setup'"

-- | A new directory that others can enter, removed afterwards.
withDirectory :: (FilePath -> IO a) -> IO a
withDirectory = bracket (mkdtemp "/tmp/heddle-test-") removePathForcibly

-- | Fail unless the text contains the part.
contains :: String -> String -> IO ()
contains part text = unless (part `isInfixOf` text) (unexpected ("a text that contains " ++ show part) (show text))

-- | Listen on the loopback interface, on any free port.
free :: [String]
free = ["--listen", "127.0.0.1:0"]

-- | The process id that a file has.
readPid :: FilePath -> IO ProcessID
readPid path = fromIntegral . (read :: String -> Int) . C.unpack <$> C.readFile path

-- | End the process whose id a file has, if there is one: a successor is not a child of the test.
endOf :: FilePath -> IO ()
endOf path = void (try (readPid path >>= signalProcess sigKILL) :: IO (Either SomeException ()))

-- | Let every second read of a program fail with EINTR, the next one included, while the action runs. Needs strace.
withReadsInterrupted :: Program -> IO a -> IO a
withReadsInterrupted program act =
  withCreateProcess strace {std_in = NoStream, std_out = NoStream, std_err = NoStream} $ \_ _ _ tracer -> do
    _ <- eventually "strace to be attached" traced id
    act <* terminateProcess tracer
  where
    strace = proc "strace" ["-f", "-qq", "-o", "/dev/null", "-e", "trace=read", "-e", "inject=read:error=EINTR:when=1+2", "-p", show (programPid program)]
    traced = do
      tasks <- listDirectory ("/proc/" ++ show (programPid program) ++ "/task")
      and <$> traverse (\task -> notElem "TracerPid:\t0" . lines . C.unpack <$> C.readFile ("/proc/" ++ show (programPid program) ++ "/task/" ++ task ++ "/status")) tasks
