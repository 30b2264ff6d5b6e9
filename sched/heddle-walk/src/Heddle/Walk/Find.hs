{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Walk.Find
-- Description : find, on all cores
-- Stability   : stable
--
-- GNU find's expression language over the parallel walk: from the words of a command line
-- to an exit status. @docs/manual/find.md@ tells where it differs from GNU find.
--
-- Cost: about 0.4 ms to start after 'beginAlone', else 1 ms; per entry, see "Heddle.Walk.Find.Internal.Compile".
-- Owner: the caller. It is meant for programs that do nothing else: it adopts the user's
-- locale, changes the number of capabilities, and writes to the process's standard
-- output and standard error.
module Heddle.Walk.Find
  ( find,
    findAs,

    -- * Without handles
    writeText,

    -- * Without other threads
    beginAlone,
  )
where

import Control.Monad (void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.Maybe (fromMaybe, isJust)
import Heddle.Prim.Errno (pattern EBADF)
import Heddle.Prim.Exception (Exception (..), IOException, try, trySync)
import Heddle.Prim.Thread (getCapabilities, getProcessors, setCapabilities)
import Heddle.Walk.Find.Internal.Accounts (learnMounts, mountsProblem, newAccounts)
import Heddle.Walk.Find.Internal.Compile
import Heddle.Walk.Find.Internal.Outputs (flushOutputs, withOutputs)
import Heddle.Walk.Find.Internal.Parser
import Heddle.Walk.Find.Internal.Programs (finishPrograms, newPrograms)
import Heddle.Walk.Find.Internal.Render
import Heddle.Walk.Find.Internal.Settings
import Heddle.Walk.Find.Internal.Starts (Starts (..), startsFailed, withStarts)
import Heddle.Walk.Find.Internal.Syntax
import Heddle.Walk.Find.Internal.System
import Heddle.Walk.Internal.Cursor (aloneUpTo, beginAlone)
import Heddle.Walk.Internal.Engine
import Heddle.Walk.Internal.Options
import System.Exit (ExitCode (..))
import System.Posix.Env.ByteString (getEnv)
import System.Posix.IO.ByteString (stdInput, stdOutput)
import System.Posix.Terminal (queryTerminal)

-- | Run @heddle find@ with these words, the bytes as the kernel passed them.
--
-- [Cost]: see the module's header.
-- [Blocks]: until the walk has ended.
-- [Throws]: nothing that the command line or the file system could cause.
-- [Threads]: once per process.
find :: [ByteString] -> IO ExitCode
find = findAs (Char8.pack "heddle find")

-- | 'find' under another name, which begins its messages.
--
-- [Cost]: as 'find'.
-- [Blocks]: until the walk has ended.
-- [Throws]: as 'find'.
-- [Threads]: once per process.
findAs :: ByteString -> [ByteString] -> IO ExitCode
findAs program arguments = do
  initialise
  rememberMask
  now <- timeNow
  asking <- queryTerminal stdInput
  posixly <- isJust <$> getEnv (Char8.pack "POSIXLY_CORRECT")
  parseCommand (defaultSettings program now asking posixly) arguments >>= \case
    Left (Failure messages) -> ExitFailure 1 <$ mapM_ (complain program) messages
    Left (BadUsage message) -> do
      complain program message
      _ <- writeText 2 (Bytes.concat [Char8.pack "Try '", program, Char8.pack " --help' for more information.\n"])
      pure (ExitFailure 1)
    Left (Answer text) ->
      writeText 1 text >>= \case
        Right () -> pure ExitSuccess
        Left e -> ExitFailure 1 <$ complain program (Char8.pack "write error: " <> errnoText e)
    Right command@(Command roots expr chosen) ->
      withStarts chosen roots (or [execAsk spec | Exec spec <- actions expr]) $ \case
        Left message -> ExitFailure 1 <$ complain program message
        Right starts -> do
          ok <- runCommand command starts
          failed <- startsFailed starts
          pure (if ok && not failed then ExitSuccess else ExitFailure 1)

-- The walk itself.
runCommand :: Command -> Starts -> IO Bool
runCommand (Command _ expr chosen) starts = do
  processors <- getProcessors
  let program = setProgram chosen
      found = actions expr
      specs = [spec | Exec spec <- found]
      quits = not (null [() | QuitNow <- found])
      sorted = setOrdered chosen || setFirst chosen
      -- What must happen one after the other.
      interactive = any execAsk specs
      inDirectories = or [execInDirectory spec && execMode spec == Batched | spec <- specs]
      growing = sorted && not (null [() | List' _ <- found])
      sequential = setJobs chosen == Just 1 || interactive || inDirectories || growing || (quits && not sorted)
      jobs = if sequential then 1 else fromMaybe processors (setJobs chosen)
  before <- getCapabilities
  alone <- aloneUpTo
  -- If the number cannot be changed, the search goes on with the workers that there are. A sequential walk has one in any case.
  if alone > 0 then beginAlone jobs else when (jobs /= before && not sequential) (void (trySync (setCapabilities jobs)))
  terminal <- queryTerminal stdOutput
  accounts <- newAccounts
  columns <- newColumns
  let renderer =
        Renderer
          { renderAccounts = accounts,
            renderNow = setNow chosen,
            renderFollow = setFollow chosen,
            renderTerminal = terminal,
            renderPosixly = setPosixly chosen,
            renderProgram = program,
            renderColumns = columns
          }
      options =
        defaultWalkOptions
          { walkFollow = setFollow chosen,
            walkOrder = if sorted then Sorted else AnyOrder,
            walkPostOrder = setDepthFirst chosen,
            walkOneFileSystem = setOneFileSystem chosen,
            walkMinDepth = setMinDepth chosen,
            walkMaxDepth = setMaxDepth chosen,
            walkReportVanished = not (setIgnoreRace chosen),
            walkProgram = program,
            walkPrompt = terminal,
            walkSequential = sequential
          }
  (ok, written) <- withOutputs sorted chosen $ \outputs -> do
    programs <- newPrograms program sorted (flushOutputs program outputs) specs
    let visitor =
          compileVisitor
            Environment
              { envProgram = program,
                envFollow = setFollow chosen,
                envSorted = sorted,
                envFirst = setFirst chosen,
                envIgnoreRace = setIgnoreRace chosen,
                envAccounts = accounts,
                envOutputs = outputs,
                envPrograms = programs,
                envRenderer = renderer,
                envFileRenderer = renderer {renderTerminal = False}
              }
            expr
    ready <- if null [() | OnFileSystem _ <- tests expr] then pure (Right ()) else try (learnMounts accounts)
    result <- either (pure . Left . mountsProblem) (const (walkWith options visitor)) ready
    batches <- finishPrograms programs
    walked <- case result of
      Left problem -> False <$ complain program problem
      Right ended -> case walkProblem ended of
        Nothing -> pure (not (walkFailed ended))
        Just e -> do
          complain program (Bytes.concat [quote (Char8.pack "standard output"), Char8.pack ": ", errnoText e])
          -- GNU find notices again when it closes its output.
          complain program (Char8.pack "write error" <> (if e == EBADF then Char8.pack ": " <> errnoText e else Bytes.empty))
          pure False
    pure (walked && batches)
  pure (ok && written)
  where
    -- What it throws: memory is short, or the directories above an entry are gone.
    walkWith options visitor =
      try (walkFrom starts) >>= \case
        Left (e :: IOException) -> pure (Left (Char8.pack (displayException e)))
        Right ended -> pure (Right ended)
      where
        walkFrom = \case
          Given roots -> runWalk options roots visitor
          Reading next _ -> runWalkFrom options next visitor
