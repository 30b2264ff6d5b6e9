{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Gateway.Cgi
-- Description : Programs that answer one request each
-- Stability   : stable
--
-- > withCgi runtime (defaultCgiSettings "/usr/lib/cgi-bin") $ \gateway -> …
--
-- A path below the gateway's prefix is followed through its directory until it names an executable file: that is the
-- program, and the rest of the path is its @PATH_INFO@. Each request starts the program, with the variables of RFC 3875
-- in its environment and the request's body on its standard input; both directions are streams, except that a body without
-- a length is received before the program is started, since programs read as many bytes as they are told. At most
-- 'cgiPrograms' run at once; further requests wait in a queue, and beyond that are refused with 503.
--
-- A program whose client goes, or whose time is over, is told by SIGTERM to its process group, and killed after a grace.
--
-- Cost: the start of a program, 0.5 to 1 ms of the system's, in which no capability stands still.
-- Owner: 'withCgi'; when it ends, no program of it runs any more.
-- [Source]: RFC 3875.
module Heddle.Gateway.Cgi
  ( CgiSettings (..),
    defaultCgiSettings,
    withCgi,
    runningPrograms,
    waitingPrograms,
    Cgi,
    cgiGateway,
    cgiScriptGateway,
    isOneProgram,
    LocalRedirects,
    redirectClients,
  )
where

import Control.Monad (replicateM_, unless, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isPrint)
import Data.Foldable (for_)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Foreign.C.Types (CChar, CInt (..), CLong (..))
import Foreign.Ptr (Ptr)
import Heddle.Gateway.Answer
import Heddle.Gateway.Asking
import Heddle.Gateway.Attend (Attendances, withAttendances)
import Heddle.Gateway.Backlog
import Heddle.Gateway.Content
import Heddle.Gateway.Environment
import Heddle.Gateway.Failure
import Heddle.Gateway.Place
import Heddle.Gateway.Program
import Heddle.Gateway.Relay
import Heddle.Gateway.Slots
import Heddle.Http
import Heddle.IO (Runtime)
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.File
import System.Posix.Types (Fd (..))

-- | Programs and their bounds.
data CgiSettings = CgiSettings
  { -- | The absolute path of the programs' directory, or of one program, which then answers everything below the prefix.
    cgiPath :: !ByteString,
    -- | The absolute path of the directory that @DOCUMENT_ROOT@ names.
    cgiRoot :: !ByteString,
    -- | Ends of the names that programs have; any name if there are none.
    cgiSuffixes :: ![ByteString],
    -- | The programs tried for a directory.
    cgiIndexes :: ![ByteString],
    -- | More variables. They count less than the request's.
    cgiVariables :: !Variables,
    -- | Programs at once.
    cgiPrograms :: !Int,
    -- | Requests that wait for one to end, and for how long.
    cgiQueue :: !Int,
    cgiWait :: !Nanos,
    -- | How long a program may be silent while its client is, too.
    cgiSilence :: !Nanos,
    -- | How long a program may run.
    cgiTime :: !Nanos,
    -- | The time between SIGTERM and SIGKILL.
    cgiGrace :: !Nanos,
    cgiLimits :: !AnswerLimits,
    -- | How much of an answer is taken from the program when its client does not take it, so that a slow client does not occupy a
    -- program. All answers may have 64 times as much.
    --
    -- [Units]: bytes.
    cgiBuffer :: !Int,
    -- | Hears of the lines on standard error, and of what goes wrong.
    cgiTell :: !(String -> IO ()),
    cgiElsewhere :: !LocalRedirects
  }

-- | 64 programs and 256 waiting requests, for 10 seconds each; a minute of silence, an hour in all, two seconds of grace; 1 MB of an
-- answer for a slow client.
defaultCgiSettings :: ByteString -> CgiSettings
defaultCgiSettings path =
  CgiSettings
    { cgiPath = path,
      cgiRoot = path,
      cgiSuffixes = [],
      cgiIndexes = ["index.cgi"],
      cgiVariables = [],
      cgiPrograms = 64,
      cgiQueue = 256,
      cgiWait = seconds 10,
      cgiSilence = seconds 60,
      cgiTime = seconds 3600,
      cgiGrace = seconds 2,
      cgiLimits = defaultAnswerLimits,
      cgiBuffer = 1048576,
      cgiTell = \_ -> pure (),
      cgiElsewhere = redirectClients
    }

-- | Programs that can be asked.
data Cgi = Cgi
  { cgiSettings :: !CgiSettings,
    cgiRuntime :: !Runtime,
    -- | The directory, or nothing if there is one program.
    cgiOpen :: !(Maybe Fd),
    cgiSlots :: !Slots,
    -- | Those that run, by a number each, and the next number.
    cgiRunning :: !(Ref (Int, IntMap Program)),
    cgiAttendances :: !Attendances,
    cgiBacklog :: !Backlog
  }

-- | Open the directory, run, and end the programs that still run.
--
-- [Blocks]: as the body does; at the end parks until the programs have ended, for the grace and ten seconds at most.
-- [Throws]: 'IOError' when the path is neither a directory nor an executable file.
withCgi :: Runtime -> CgiSettings -> (Cgi -> IO a) -> IO a
withCgi runtime settings body = withAttendances runtime $ \attendances -> bracket (open attendances) closing body
  where
    open attendances = do
      r <- openFile (cgiPath settings) directoryOnly
      directory <-
        if r >= 0
          then pure (Just (fromIntegral r))
          else
            if Errno (negate r) == ENOTDIR
              then Nothing <$ checked (C.unpack (cgiPath settings)) (B.useAsCString (cgiPath settings) (fmap fromIntegral . c_executable))
              else checked (C.unpack (cgiPath settings)) (pure r) >> pure Nothing
      Cgi settings runtime directory <$> newSlots (cgiPrograms settings) (cgiQueue settings) <*> newRef (0, IntMap.empty) <*> pure attendances <*> newBacklog (cgiBuffer settings)
    closing cgi = do
      (_, running) <- readRef (cgiRunning cgi)
      for_ running (endProgram (cgiGrace settings))
      -- A program that ignores SIGTERM is killed after the grace; a loaded system may take its time to end it.
      deadline <- deadlineIn (cgiGrace settings <> seconds 10)
      -- When all slots are taken here, no program has one.
      mask_ (replicateM_ (max 1 (cgiPrograms settings)) (acquireAnywayUntil (cgiSlots cgi) deadline))
      for_ (cgiOpen cgi) closeFile

-- | Whether the path names one program instead of a directory of them.
--
-- [Cost]: none.
isOneProgram :: Cgi -> Bool
isOneProgram = null . cgiOpen

-- | How many programs run.
runningPrograms :: Cgi -> IO Int
runningPrograms = slotsTaken . cgiSlots

-- | How many requests wait for a program to end.
waitingPrograms :: Cgi -> IO Int
waitingPrograms = slotsAwaited . cgiSlots

-- | Answer by programs.
--
-- [Blocks]: parks.
-- [Masking]: interruptible; the program is then told to end.
cgiGateway :: Cgi -> Gateway
cgiGateway cgi place request = case cgiOpen cgi of
  _ | hidesDots (placeRest place) -> pure hidesDotsReply
  Nothing -> run (cgiPath settings) (pathBytes (placePrefix place)) (placeBelow place)
  Just directory
    | any ("." `B.isPrefixOf`) (C.split '/' (placeRest place)) -> pure missing
    | otherwise -> find directory (placeRest place) >>= found directory
  where
    settings = cgiSettings cgi
    run path name info = runProgram cgi place request (Script name info path (cgiRoot settings)) path
    found directory = \case
      Right n
        | named script -> run (cgiPath settings <> "/" <> script) (pathBytes (placePrefix place) <> pathBytes script) (B.drop (n + 1) (placeBelow place))
        | otherwise -> pure missing
        where
          script = B.take n (placeRest place)
      Left EISDIR -> index directory (cgiIndexes settings)
      Left e
        | e `elem` absences -> pure missing
        | e `elem` [EACCES, EXDEV, EPERM] -> pure (problem status403 "This is no program that the server may run.")
        | otherwise -> notLookedUp settings place e
    named script = null (cgiSuffixes settings) || any (`B.isSuffixOf` script) (cgiSuffixes settings)
    index _ [] = pure (problem status403 "This directory has no program of its own.")
    index directory (name : others) = do
      let inside = if B.null (placeRest place) then name else placeRest place <> "/" <> name
      r <- find directory inside
      case r of
        Right n
          | n == B.length inside ->
            if placeSlash place
              then run (cgiPath settings <> "/" <> inside) (pathBytes (placePrefix place) <> pathBytes inside) ""
              else pure (Whole status301 [Header "Location" (escaped (placePath place) <> "/")] "")
        Left e | e `notElem` EISDIR : EACCES : EXDEV : EPERM : absences -> notLookedUp settings place e
        -- One that may not be run is as good as none.
        _ -> index directory others
    missing = problem status404 "There is no such program."
    -- The path was decoded, so it may hold anything.
    escaped = B.concatMap (\b -> if b > 0x20 && b < 0x7F && b `B.notElem` "%?#\"<>" then B.singleton b else C.pack ('%' : hex (b `quot` 16) : [hex (b `rem` 16)]))
    hex d = C.index "0123456789ABCDEF" (fromIntegral d)

-- | Answer by one program, an interpreter such as php-cgi, for the scripts below a root whose names end in one of these
-- suffixes: the variables name the script. A script that is no file is 404.
--
-- [Blocks]: parks.
-- [Masking]: interruptible; the program is then told to end.
cgiScriptGateway :: Cgi -> ByteString -> [ByteString] -> Gateway
cgiScriptGateway _ _ _ place _ | hidesDots (placeRest place) = pure hidesDotsReply
cgiScriptGateway cgi root suffixes place request = do
  found <- B.useAsCString root $ \r -> B.useAsCString (B.drop 1 name) (c_regular r)
  case Errno (negate (fromIntegral found)) of
    _ | found >= 0 -> runProgram cgi place request (Script name info (root <> name) root) (cgiPath (cgiSettings cgi))
    e
      | e `elem` EISDIR : EACCES : EXDEV : EPERM : absences -> pure (problem status404 "There is no such script.")
      | otherwise -> notLookedUp (cgiSettings cgi) place e
  where
    (name, info) = splitScript suffixes (pathBytes (placePrefix place) <> placeBelow place)

-- What the system says when there is no file of a name, and nothing else.
absences :: [Errno]
absences = [ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, EINVAL]

-- Whether there is a program is not known, so 404 would be false, and a cache might keep it.
notLookedUp :: CgiSettings -> Place -> Errno -> IO Reply
notLookedUp settings place e = do
  cgiTell settings ("CGI " ++ C.unpack (placePath place) ++ ": " ++ describeErrno e)
  pure $
    if e `elem` [EMFILE, ENFILE, ENOMEM, EAGAIN]
      then problem status503 "The server is out of descriptors or memory; try again."
      else problem status500 "The program could not be looked up."

find :: Fd -> ByteString -> IO (Either Errno Int)
find (Fd directory) path
  | B.null path = pure (Left EISDIR)
  | otherwise = do
    r <- fromIntegral <$> B.useAsCString path (c_find directory)
    pure (if r < 0 then Left (Errno (negate r)) else Right r)

problem :: Status -> ByteString -> Reply
problem status text = Whole status [Header "Content-Type" "text/plain; charset=utf-8"] (C.concat [C.pack (show (statusCode status)), " ", reasonPhrase status, "\n", text, "\n"])

-- Start a program and relay.
runProgram :: Cgi -> Place -> Request -> Script -> ByteString -> IO Reply
runProgram cgi place request script file = askProgram asking place request script $ \restore free content variables -> do
  started <- launch free content variables `onException` free
  case started of
    Left e -> NotAnswered (Unreachable (describeErrno e)) <$ free
    Right program -> do
      relayed <-
        restore (relay relaying request content (backend program))
          `onException` endProgram (cgiGrace settings) program
      relayed <$ closeProgram program
  where
    asking = Asking name (cgiSlots cgi) (cgiWait settings) (cgiTell settings) (cgiElsewhere settings)
    settings = cgiSettings cgi
    name = "program " ++ C.unpack (scriptName script)
    relaying = RelaySettings (cgiSilence settings) (cgiLimits settings) (cgiTell settings) (cgiAttendances cgi) (cgiBacklog cgi)
    backend program =
      Backend
        { backendName = name,
          backendFeed = feedInput program,
          backendFed = closeInput program,
          backendReceive = receiveOutput program,
          backendAbort = endProgram (cgiGrace settings) program,
          -- It ends by itself, and then gives its place up.
          backendRelease = pure ()
        }
    launch :: IO () -> Content -> Variables -> IO (Either Errno Program)
    launch free content variables = do
      deadline <- deadlineIn (cgiTime settings)
      key <- modifyRef (cgiRunning cgi) (\(n, running) -> ((n + 1, running), n))
      let forget = modifyRef (cgiRunning cgi) (\(n, running) -> ((n, IntMap.delete key running), ()))
      started <-
        startProgram
          (cgiRuntime cgi)
          Launch
            { launchPath = file,
              launchArguments = [file],
              launchEnvironment = [B.concat [n, "=", v] | (n, v) <- unique (("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin") : cgiVariables settings ++ variables)],
              launchDirectory = directoryOf (scriptFile script),
              launchReads = hasBytes content,
              launchUntil = deadline,
              launchGrace = cgiGrace settings,
              launchErrors = \line -> unless (B.null line) (cgiTell settings (name ++ ": " ++ printable line)),
              launchEnded = \code -> do
                forget
                free
                for_ (describeEnd code) (\how -> cgiTell settings (name ++ " " ++ how))
            }
      case started of
        -- It may have ended by now, and then its entry stays away.
        Right program -> do
          ended <- hasEnded program
          unless ended (modifyRef (cgiRunning cgi) (\(n, running) -> ((n, IntMap.insert key program running), ())))
          again <- hasEnded program
          when again forget
        Left _ -> pure ()
      pure started
    directoryOf path = let directory = fst (C.breakEnd (== '/') path) in if B.length directory > 1 then B.init directory else "/"

-- The last of two with one name.
unique :: Variables -> Variables
unique = reverse . go [] . reverse
  where
    go _ [] = []
    go seen (v@(n, _) : rest)
      | n `elem` seen = go seen rest
      | otherwise = v : go (n : seen) rest

printable :: ByteString -> String
printable = map (\c -> if isPrint c && c < '\DEL' then c else '?') . C.unpack . B.take 4096

-- Safe: it looks a path up.
foreign import ccall safe "heddle_cgi_find" c_find :: CInt -> Ptr CChar -> IO CLong

-- Safe: it looks a path up.
foreign import ccall safe "heddle_regular" c_regular :: Ptr CChar -> Ptr CChar -> IO CLong

-- Safe: it looks a path up.
foreign import ccall safe "heddle_executable" c_executable :: Ptr CChar -> IO CLong
