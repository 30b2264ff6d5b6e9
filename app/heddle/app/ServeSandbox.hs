{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : ServeSandbox
-- Description : heddle serve's options for what the process may do
--
-- The rules are made here, of what is to be served. cbits/heddle_sandbox.c applies them, in this process executed again, before
-- the runtime system has threads.
module ServeSandbox
  ( SandboxOptions,
    sandboxOptions,
    sandboxed,
  )
where

import Control.Monad (unless, when)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Char (isSpace)
import Data.Either (rights)
import Data.Foldable (toList)
import Data.List (isPrefixOf, nub, sort)
import Data.List.NonEmpty qualified as NonEmpty
import Data.Maybe (isJust, mapMaybe, maybeToList)
import Foreign.C.String (CString)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.Marshal.Array (withArray0)
import Foreign.Ptr (Ptr, nullPtr)
import Heddle.Prim.Errno (Errno (..), describeErrno, pattern ENOENT)
import Heddle.Prim.Exception (IOException, try, trySync)
import Heddle.Prim.Message (putErrorLine)
import Heddle.Serve
import Heddle.Tls (PemSource (..), TlsConfig (..), TlsPair (..))
import Inputs (toBytes)
import Options.Applicative
import System.Directory (canonicalizePath, getCurrentDirectory, getHomeDirectory, makeAbsolute, pathIsSymbolicLink)
import System.Environment (getExecutablePath, lookupEnv)
import System.Exit (ExitCode (..), exitSuccess, exitWith)
import System.FilePath (dropTrailingPathSeparator, takeDirectory)

-- | What the command line says.
data SandboxOptions = SandboxOptions !Mode !Bool ![FilePath] ![FilePath]

data Mode = Auto | On | Off
  deriving stock (Eq)

-- | Whether to give rights up, and which to keep besides.
sandboxOptions :: Parser SandboxOptions
sandboxOptions =
  SandboxOptions
    <$> option
      (eitherReader mode)
      (long "sandbox" <> metavar "auto|on|off" <> completeWith ["auto", "on", "off"] <> value Auto <> showDefaultWith (const "auto") <> help "Give up what the options do not need: files (Landlock) and system calls (seccomp); auto: where the system has them, and programs of --cgi keep their files; on: or refuse to start")
    <*> switch (long "sandbox-show" <> help "Print what the sandbox allows, and end")
    <*> many (strOption (long "sandbox-read" <> metavar "PATH" <> action "file" <> help "Let the sandbox read this too; may be given more than once"))
    <*> many (strOption (long "sandbox-write" <> metavar "PATH" <> action "file" <> help "Let the sandbox write this too; may be given more than once"))
  where
    mode = \case
      "auto" -> Right Auto
      "on" -> Right On
      "off" -> Right Off
      other -> Left ("'" ++ other ++ "' is not a way to use the sandbox; there are auto, on and off")

-- What may be done with a path and what is beneath it.
data Right' = Reading | Executing | Writing
  deriving stock (Eq, Ord)

-- What is allowed: of files, if they are restricted at all, and whether connections to other machines are.
data Plan = Plan !(Maybe [(Right', FilePath)]) !Bool

-- | Serve with no more rights than needed. The flag says that a browser will be opened, which needs its own files. It does
-- not return if the program was executed again.
sandboxed :: SandboxOptions -> Bool -> ServeOptions -> [String] -> IO ()
sandboxed (SandboxOptions mode shows' reads' writes) opens options arguments = do
  already <- lookupEnv "HEDDLE_SANDBOXED"
  plan <- planOf mode reads' writes options
  version <- c_landlock
  when shows' $ do
    putStr (render (mode == Off || opens && mode == Auto) (version > 0) plan)
    exitSuccess
  -- A successor has inherited it.
  unless (isJust already || mode == Off || opens && mode == Auto) $ do
    records <- recordsOf plan
    words' <- traverse toBytes arguments
    -- Without /proc it is not known what to execute again.
    errno <- if null arguments then pure (fromIntegral (errnoNumber ENOENT)) else unsafeUseAsCStringLen records $ \(p, n) -> withStrings words' (c_restart p (fromIntegral n) (if mode == On then 1 else 0))
    when (mode == On) $ do
      putErrorLine ("heddle serve: the sandbox cannot be entered: " ++ describeErrno (Errno (fromIntegral errno)) ++ ".\n  Give --sandbox off, or mount /proc.")
      exitWith (ExitFailure 2)

planOf :: Mode -> [FilePath] -> [FilePath] -> ServeOptions -> IO Plan
planOf mode reads' writes options = do
  program <- toList <$> trySync getExecutablePath
  libraries <- mappedDirectories
  homes <- sequence [getHomeDirectory, pure "/", pure "/home", pure "/root"]
  directories <- concat <$> traverse (withParents homes) (nub (concat [maybeToList (siteDirectory site) ++ [p | RouteSpec _ (FilesIn p) <- siteRoutes site] | site <- sites]))
  here <- getCurrentDirectory
  certificates <- traverse withReal [path | TlsOf config <- [serveTls options], pair <- tlsPairs config, PemFile path <- [pairChain pair, pairKey pair]]
  users <- traverse withReal (nub (mapMaybe (fileUsers . siteFiles) sites))
  let logs = [p | LogFile p <- rights (map parseLogTarget (maybeToList (serveAccessLog options))) ++ maybeToList (logErrors (serveLogs options))] ++ maybeToList (servePidFile options)
      sockets = [p | ListenSpec _ (ListenUnix p) <- serveListen options]
      routes = concatMap siteRoutes sites
      programs = [p | RouteSpec _ (CgiDirectory p) <- routes]
      routed = any (connects . specTarget) routes
      system
        | routed = ["/etc", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates", "/run/systemd/resolve"]
        | otherwise = map ("/etc/" ++) ["ld.so.cache", "ld.so.preload", "nsswitch.conf", "passwd", "group", "hosts", "host.conf", "gai.conf", "resolv.conf", "services", "localtime", "timezone", "mime.types", "ssl/openssl.cnf"]
  -- A log may be a symbolic link to another disk.
  linked <- traverse canonicalizePath logs
  let resolve path = if "/" `isPrefixOf` path then path else here ++ "/" ++ path
      rules =
        [(Reading, p) | p <- directories ++ concat certificates ++ concat users ++ system ++ ["/usr/lib", "/usr/share/zoneinfo", "/proc", "/sys", "/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty"] ++ map resolve reads']
          ++ [(Executing, p) | p <- map takeDirectory program ++ libraries ++ map resolve programs ++ (if null programs then [] else ["/bin", "/sbin", "/usr", "/lib", "/lib64"])]
          ++ [(Writing, p) | p <- ["/dev/null", "/dev/tty"] ++ map (directoryOf . resolve) (logs ++ sockets) ++ map directoryOf linked ++ map resolve writes]
      -- Programs, and files that are anywhere, need what nobody has listed.
      free = mode == Auto && (not (null programs) || any (fileFollow . siteFiles) sites)
  pure (Plan (if free then Nothing else Just (nub (sort rules))) routed)
  where
    sites = NonEmpty.toList (serveSites options)
    -- What may need other machines, or programs that do.
    connects = \case
      FilesIn _ -> False
      RedirectTo _ _ -> False
      RespondWith {} -> False
      RewriteTo _ -> False
      TryFiles _ _ -> False
      _ -> True
    -- A directory, what it leads to, and the directories in which they may be replaced.
    withParents homes path = do
      directory <- dropTrailingPathSeparator <$> makeAbsolute path
      real <- canonicalizePath directory
      link <- try (pathIsSymbolicLink directory)
      pure (directory : real : [p | p <- takeDirectory directory : [takeDirectory real | either (\(_ :: IOException) -> False) id link], p `notElem` homes])
    -- Files are replaced by renaming, so it is their directory that counts; devices are what they are.
    directoryOf path = if "/dev/" `isPrefixOf` path || "/proc/" `isPrefixOf` path then path else takeDirectory path
    withReal path = do
      given <- makeAbsolute path
      real <- canonicalizePath path
      pure (nub [takeDirectory given, takeDirectory real])

-- Where the shared libraries and the program that loads them are.
mappedDirectories :: IO [FilePath]
mappedDirectories = do
  text <- either (const "") C.unpack <$> trySync (C.readFile "/proc/self/maps")
  pure (nub [takeDirectory path | line <- lines text, path@('/' : _) <- [dropWhile (/= '/') line], not (any isSpace path), ".so" `elem` pieces path])
  where
    pieces path = [take 3 rest | rest <- suffixes path]
    suffixes s =
      s : case s of
        _ : rest -> suffixes rest
        [] -> []

recordsOf :: Plan -> IO B.ByteString
recordsOf (Plan files connects) = case files of
  Nothing -> pure B.empty
  Just rules -> (C.pack (if connects then "-\0" else "n\0") <>) . B.concat <$> traverse one rules
  where
    one (right, path) = (\bytes -> C.concat [C.singleton (letter right), bytes, C.singleton '\0']) <$> toBytes path
    letter = \case
      Reading -> 'r'
      Executing -> 'x'
      Writing -> 'w'

render :: Bool -> Bool -> Plan -> String
render off landlock (Plan files connects)
  | off = "sandbox: off\n"
  | otherwise = unlines (calls : network : filesLines)
  where
    calls = "system calls: all but those for debugging, mounts, namespaces, modules, keys, clocks and io_uring"
    network
      | connects || not landlock || null files = "connections to other machines: yes"
      | otherwise = "connections to other machines: none by TCP (from Landlock's version 4 on)"
    filesLines = case files of
      _ | not landlock -> ["files: all, for this system has no Landlock"]
      Nothing -> ["files: all, for --cgi or --follow-symlinks may need any; --sandbox on restricts them"]
      Just rules -> [name right ++ " " ++ path | (right, path) <- rules]
    name = \case
      Reading -> "read   "
      Executing -> "execute"
      Writing -> "write  "

withStrings :: [B.ByteString] -> (Ptr CString -> IO a) -> IO a
withStrings = go []
  where
    go done [] body = withArray0 nullPtr (reverse done) body
    go done (s : rest) body = B.useAsCString s (\p -> go (p : done) rest body)

-- unsafe: asks the kernel for a number.
foreign import ccall unsafe "heddle_sandbox_landlock" c_landlock :: IO CInt

-- safe: reads the program.
foreign import ccall safe "heddle_sandbox_restart" c_restart :: CString -> CSize -> CInt -> Ptr CString -> IO CInt
