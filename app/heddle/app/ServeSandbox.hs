{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : ServeSandbox
-- Description : What the process of heddle serve may do
--
-- The rules are made here, of what is to be served. cbits/heddle_sandbox.c applies them, in this process executed again, before
-- the runtime system has threads.
module ServeSandbox
  ( SandboxOptions (..),
    Sandbox,
    noSandbox,
    sandboxed,
    beyondSandbox,
  )
where

import Control.Monad (mfilter, unless, when)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Char (isSpace)
import Data.Containers.ListUtils (nubOrd)
import Data.Either (rights)
import Data.Foldable (toList)
import Data.List (isPrefixOf, sort)
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
import Heddle.Serve.Config (SandboxMode (..))
import Inputs (toBytes)
import System.Directory (canonicalizePath, getCurrentDirectory, getHomeDirectory, makeAbsolute, pathIsSymbolicLink)
import System.Environment (getExecutablePath, lookupEnv)
import System.Exit (ExitCode (..), exitSuccess, exitWith)
import System.FilePath (dropTrailingPathSeparator, takeDirectory)

-- | What is given up, and what is kept besides.
data SandboxOptions = SandboxOptions
  { sandboxMode :: !SandboxMode,
    -- | Print what is allowed, and end.
    sandboxShow :: !Bool,
    sandboxRead :: ![FilePath],
    sandboxWrite :: ![FilePath],
    -- | Files that are read again at SIGHUP.
    sandboxConfig :: ![FilePath]
  }

-- What may be done with a path and what is beneath it.
data Right' = Reading | Executing | Writing
  deriving stock (Eq, Ord)

-- What is allowed: of files, if they are restricted at all, and whether connections to other machines are.
data Plan = Plan !(Maybe [(Right', FilePath)]) !Bool

-- | The sandbox that this process is in: what it allows, if it restricts anything.
newtype Sandbox = Sandbox (Maybe Plan)

-- | None.
noSandbox :: Sandbox
noSandbox = Sandbox Nothing

-- | Serve with no more rights than needed. The flag says that a browser will be opened, which needs its own files. It does
-- not return if the program was executed again.
sandboxed :: SandboxOptions -> Bool -> ServeOptions -> [String] -> IO Sandbox
sandboxed sandbox opens options arguments = do
  already <- lookupEnv "HEDDLE_SANDBOXED"
  plan <- planOf sandbox options
  version <- c_landlock
  when (sandboxShow sandbox) $ do
    putStr (render (mode == SandboxOff || opens && mode == SandboxAuto) (version > 0) plan)
    exitSuccess
  -- A successor has inherited it.
  unless (isJust already || mode == SandboxOff || opens && mode == SandboxAuto) $ do
    records <- recordsOf plan
    words' <- traverse toBytes arguments
    -- Without /proc it is not known what to execute again.
    errno <- if null arguments then pure (fromIntegral (errnoNumber ENOENT)) else unsafeUseAsCStringLen records $ \(p, n) -> withStrings words' (c_restart p (fromIntegral n) (if mode == SandboxOn then 1 else 0))
    when (mode == SandboxOn) $ do
      putErrorLine ("heddle serve: the sandbox cannot be entered: " ++ describeErrno (Errno (fromIntegral errno)) ++ ".\n  Give --sandbox off, or mount /proc.")
      exitWith (ExitFailure 2)
  pure (Sandbox (if isJust already && version > 0 then Just plan else Nothing))
  where
    mode = sandboxMode sandbox

-- | What options need that the sandbox does not allow, in words. It cannot be widened, so a reload would fail with an error that does not
-- name the cause, or, for connections, each request would.
--
-- A successor is in the sandbox of the process that started it, which may allow less than is assumed here.
beyondSandbox :: Sandbox -> ServeOptions -> IO [String]
beyondSandbox (Sandbox Nothing) _ = pure []
beyondSandbox (Sandbox (Just (Plan files connected))) options = do
  let sites = NonEmpty.toList (serveSites options)
  version <- c_landlock
  allowed <- traverse (traverse canonicalizePath) (concat files)
  let among known path = any (\one -> one == path || (dropTrailingPathSeparator one ++ "/") `isPrefixOf` path) known
      lacking name known paths = (\real -> ["it does not allow to " ++ name ++ " " ++ path | (path, at) <- zip paths real, not (among known at)]) <$> traverse canonicalizePath paths
  unread <- lacking "read" (map snd allowed) (nubOrd (directoriesOf sites ++ certificateFiles (serveTls options) ++ usersOf sites))
  unrun <- lacking "execute" [path | (Executing, path) <- allowed] (programsOf sites)
  pure ((if isJust files then unread ++ unrun else []) ++ ["it does not allow connections to other servers by TCP" | isJust files, version >= 4, not connected, routesConnect sites])

-- The directories whose files are served.
directoriesOf :: [Site] -> [FilePath]
directoriesOf sites = nubOrd (concat [maybeToList (siteDirectory site) ++ [p | RouteSpec _ (FilesIn p) <- siteRoutes site] | site <- sites])

programsOf :: [Site] -> [FilePath]
programsOf sites = [p | site <- sites, RouteSpec _ (CgiDirectory p) <- siteRoutes site]

usersOf :: [Site] -> [FilePath]
usersOf = nubOrd . mapMaybe (fileUsers . siteFiles)

-- Whether routes may need other machines, or programs that do.
routesConnect :: [Site] -> Bool
routesConnect sites = or [connects (specTarget route) | site <- sites, route <- siteRoutes site]
  where
    connects = \case
      FilesIn _ -> False
      RedirectTo _ _ -> False
      RespondWith {} -> False
      RewriteTo _ -> False
      TryFiles _ _ -> False
      _ -> True

planOf :: SandboxOptions -> ServeOptions -> IO Plan
planOf sandbox options = do
  program <- toList <$> trySync getExecutablePath
  libraries <- mappedDirectories
  homes <- sequence [getHomeDirectory, pure "/", pure "/home", pure "/root"]
  directories <- concat <$> traverse (withParents homes) (directoriesOf sites)
  here <- getCurrentDirectory
  certificates <- traverse withReal (certificateFiles (serveTls options))
  users <- traverse withReal (usersOf sites)
  configs <- traverse withReal (sandboxConfig sandbox)
  temporary <- lookupEnv "TMPDIR"
  let logs = [p | LogFile p <- rights (map parseLogTarget (maybeToList (serveAccessLog options))) ++ maybeToList (logErrors (serveLogs options))] ++ maybeToList (servePidFile options)
      sockets = [p | ListenSpec _ (ListenUnix p) <- serveListen options]
      programs = programsOf sites
      routed = routesConnect sites
      targets = [specTarget route | site <- sites, route <- siteRoutes site]
      -- Content without a length is kept in a file before a program is asked. Those of --cgi may do what the server may, so
      -- for them the directory that all others use has to be named.
      contents = case mfilter (not . null) temporary of
        Just directory -> [directory | any asksProgram targets]
        Nothing -> ["/var/tmp" | null programs, any asksProgram targets]
      system
        | routed = ["/etc", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates", "/run/systemd/resolve"]
        | otherwise = map ("/etc/" ++) ["ld.so.cache", "ld.so.preload", "nsswitch.conf", "passwd", "group", "hosts", "host.conf", "gai.conf", "resolv.conf", "services", "localtime", "timezone", "mime.types", "ssl/openssl.cnf"]
  -- A log may be a symbolic link to another disk.
  linked <- traverse canonicalizePath logs
  let resolve path = if "/" `isPrefixOf` path then path else here ++ "/" ++ path
      rules =
        [(Reading, p) | p <- directories ++ concat certificates ++ concat users ++ concat configs ++ system ++ ["/usr/lib", "/usr/share/zoneinfo", "/proc", "/sys", "/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty"] ++ map resolve (sandboxRead sandbox)]
          ++ [(Executing, p) | p <- map takeDirectory program ++ libraries ++ map resolve programs ++ (if null programs then [] else ["/bin", "/sbin", "/usr", "/lib", "/lib64"])]
          ++ [(Writing, p) | p <- ["/dev/null", "/dev/tty"] ++ map (directoryOf . resolve) (logs ++ sockets) ++ map directoryOf linked ++ map resolve (contents ++ sandboxWrite sandbox)]
      -- Programs, and files that are anywhere, need what nobody has listed.
      free = sandboxMode sandbox == SandboxAuto && (not (null programs) || any (fileFollow . siteFiles) sites)
  pure (Plan (if free then Nothing else Just (nubOrd (sort rules))) routed)
  where
    sites = NonEmpty.toList (serveSites options)
    asksProgram = \case
      CgiDirectory _ -> True
      FastCgiServers _ -> True
      ScgiServers _ -> True
      _ -> False
    -- A directory, what it leads to, and the directories in which they may be replaced.
    withParents homes path = do
      directory <- dropTrailingPathSeparator <$> makeAbsolute path
      real <- canonicalizePath directory
      -- What is not there, or not to be looked at, is no link that could be replaced.
      link <- try (pathIsSymbolicLink directory)
      pure (directory : real : [p | p <- takeDirectory directory : [takeDirectory real | either (\(_ :: IOException) -> False) id link], p `notElem` homes])
    -- Files are replaced by renaming, so it is their directory that counts; devices are what they are.
    directoryOf path = if "/dev/" `isPrefixOf` path || "/proc/" `isPrefixOf` path then path else takeDirectory path
    withReal path = do
      given <- makeAbsolute path
      real <- canonicalizePath path
      pure (nubOrd [takeDirectory given, takeDirectory real])

-- Where the shared libraries and the program that loads them are.
mappedDirectories :: IO [FilePath]
mappedDirectories = do
  text <- either (const "") C.unpack <$> trySync (C.readFile "/proc/self/maps")
  pure (nubOrd [takeDirectory path | line <- lines text, path@('/' : _) <- [dropWhile (/= '/') line], not (any isSpace path), ".so" `elem` pieces path])
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
