{-# LANGUAGE PatternSynonyms #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Walk.Find.Internal.Programs
-- Description : -exec and similar actions
-- Stability   : internal, exempt from the version policy
--
-- Runs programs for entries: one for each, or one for as many as fit a command line.
-- Batches belong to the run and are filled by all workers; the worker that fills one runs it.
--
-- Cost: a process per run; a lock per entry of a batch.
-- Owner: the run.
module Heddle.Walk.Find.Internal.Programs
  ( readExec,
    Programs,
    newPrograms,
    runFor,
    finishPrograms,
    splitPath,
  )
where

import Control.Monad (forM_, unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.Foldable (find)
import Data.Int (Int64)
import Data.Traversable (for)
import Foreign.C.Types (CInt)
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef, writeRef)
import Heddle.Prim.Errno (Errno, pattern E2BIG)
import Heddle.Prim.Lock (Lock, newLock, withLock)
import Heddle.Prim.Unsafe (unsafePure)
import Heddle.Walk.Find.Internal.Settings hiding (Read)
import Heddle.Walk.Find.Internal.Syntax
import Heddle.Walk.Find.Internal.System
import Heddle.Walk.Internal.Entry
  ( Entry,
    entryDepth,
    entryDirectory,
    entryPath,
    flushOutput,
    markFailed,
    writeRecordTo,
  )
import System.Posix.Env.ByteString (getEnv)
import System.Posix.IO (closeFd, stdInput)

-- | @readExec word inDirectory ask rest@: the command in the words that follow, and the
-- words behind it.
readExec :: ByteString -> Bool -> Bool -> [ByteString] -> Either Stop (ExecSpec, [ByteString])
readExec word inDirectory ask rest = case scan [] rest of
  Nothing -> refuse [Char8.pack "missing argument to `", word, Char8.pack "'"]
  Just ([], PerEntry, _) -> refuse [Char8.pack "invalid argument `;' to `", word, Char8.pack "'"]
  Just (given, mode, more) -> do
    let withBraces = filter (braces `Bytes.isInfixOf`) given
    if mode == Batched
      then do
        if length withBraces > 1
          then refuse [Char8.pack "Only one instance of {} is supported with ", word, Char8.pack " ... +"]
          else Right ()
        forM_ (find (/= braces) withBraces) $ \bad ->
          refuse
            [ Char8.pack "In ",
              quote (word <> Char8.pack " ... {} +"),
              Char8.pack " the ",
              quote braces,
              Char8.pack " must appear by itself, but you specified ",
              quote bad
            ]
      else Right ()
    if inDirectory then maybe (Right ()) (refuse . pure) (unsafePath word) else Right ()
    Right (ExecSpec word mode inDirectory ask (if mode == Batched then init given else given) 0, more)
  where
    refuse = Left . Failure . pure . Bytes.concat
    scan given = \case
      [] -> Nothing
      w : more
        | w == Char8.pack ";" -> Just (reverse given, PerEntry, more)
        | w == Char8.pack "+", not ask, previous : _ <- given, braces `Bytes.isInfixOf` previous -> Just (reverse given, Batched, more)
        | otherwise -> scan (w : given) more

braces :: ByteString
braces = Char8.pack "{}"

-- In another user's directory, PATH could find another user's program.
unsafePath :: ByteString -> Maybe ByteString
unsafePath word = case unsafePure (getEnv (Char8.pack "PATH")) of
  Nothing -> Nothing
  Just path -> firstOf (Char8.split ':' path)
  where
    firstOf [] = Nothing
    firstOf (part : more)
      | Bytes.null part || part == Char8.pack "." =
        Just $
          Bytes.concat
            [ Char8.pack "The current directory is included in the PATH environment variable, which is insecure in combination with the ",
              word,
              Char8.pack
                " action of find.  Please remove the current directory from your $PATH (that is, remove \".\", doubled colons, or leading or trailing colons)"
            ]
      | Char8.head part /= '/' =
        Just $
          Bytes.concat
            [ Char8.pack "The relative path ",
              quote part,
              Char8.pack " is included in the PATH environment variable, which is insecure in combination with the ",
              word,
              Char8.pack " action of find.  Please remove that entry from $PATH"
            ]
      | otherwise = firstOf more

-- | The programs of a run.
data Programs = Programs
  { programsName :: !ByteString,
    -- | Must effects wait for their turn?
    programsSorted :: !Bool,
    programsBatches :: ![Batch],
    -- | Write out the files of the run.
    programsFlush :: !(IO ()),
    -- | A batch ended badly.
    programsFailed :: !(Ref Bool)
  }

data Batch = Batch
  { batchSpec :: !ExecSpec,
    batchLock :: !Lock,
    -- | Bytes of arguments that a command line may have; less once the system refused one.
    batchRoom :: !(Ref Int64),
    batchFilling :: !(Ref Filling)
  }

-- Arguments gathered, last first, their size, and the directory they are in: the front of
-- their paths and a descriptor.
data Filling = Filling ![ByteString] !Int64 !(Maybe (ByteString, CInt))

-- | Programs for the actions of an expression.
newPrograms :: ByteString -> Bool -> IO () -> [ExecSpec] -> IO Programs
newPrograms program sorted flush specs = do
  free <- argumentRoom
  -- The headroom of POSIX, and no more than xargs uses.
  let room = max 4096 (min 131072 (free - 2048))
  batches <- mapM (\spec -> Batch spec <$> newLock <*> newRef room <*> newRef (Filling [] 0 Nothing)) [s | s <- specs, execMode s == Batched]
  Programs program sorted batches flush <$> newRef False

-- | Run for an entry, or put it into its batch.
--
-- [Blocks]: holds an OS thread while the program runs.
runFor :: Programs -> ExecSpec -> Entry -> IO Bool
runFor programs spec v = case execMode spec of
  PerEntry -> do
    path <- entryPath v
    mine <- flushOutput v
    if not mine
      then pure False
      else do
        programsFlush programs
        yes <- if execAsk spec then confirm path else pure True
        if yes then inItsPlace path else pure False
  Batched -> do
    path <- entryPath v
    mine <- if programsSorted programs then flushOutput v else pure True
    when mine (addTo programs batch v path)
    pure True
  where
    batch = head [b | b <- programsBatches programs, execBatch (batchSpec b) == execBatch spec]
    report text = writeRecordTo v 2 (Bytes.concat [programsName programs, Char8.pack ": ", text, Char8.pack "\n"])
    confirm path = do
      writeRecordTo v 2 (Bytes.concat [Char8.pack "< ", head (execWords spec), Char8.pack " ... ", path, Char8.pack " > ? "])
      readLine stdInput >>= maybe (pure False) affirmative
    inItsPlace path
      | execInDirectory spec = do
        depth <- entryDepth v
        let (front, name) = splitPath depth path
        if depth == 0
          then
            holdDirectory here (Just front) >>= \case
              Left e -> report (quote front <> Char8.pack ": " <> errnoText e) >> markFailed v >> pure False
              Right fd -> do
                ok <- runOne name fd
                closeFd (fromIntegral fd)
                pure ok
          else entryDirectory v >>= runOne name
      | otherwise = runOne path here
    runOne name directory = do
      let arguments = map (substitute name) (execWords spec)
      ending <- spawnProgram arguments directory (execAsk spec) >>= endingOf report (head arguments)
      pure (ending == Just (Exited 0))

here :: CInt
here = -100

-- | The directory of an entry and its name in it, as @-execdir@ uses them.
splitPath :: Int -> ByteString -> (ByteString, ByteString)
splitPath depth path
  | Char8.all (== '/') path = (Char8.pack "/", Char8.pack "/")
  | otherwise = (if Bytes.null front then Char8.pack "." else front, Char8.pack "./" <> base)
  where
    -- A starting point keeps one of its trailing slashes.
    trimmed = if depth == 0 then Char8.dropWhileEnd (== '/') path else path
    (front, name) = Char8.breakEnd (== '/') trimmed
    base = if Bytes.length trimmed < Bytes.length path then name <> Char8.pack "/" else name

substitute :: ByteString -> ByteString -> ByteString
substitute name word
  | word == braces = name
  | otherwise = Bytes.concat (go word)
  where
    go text = case Bytes.breakSubstring braces text of
      (start, rest)
        | Bytes.null rest -> [start]
        | otherwise -> start : name : go (Bytes.drop 2 rest)

-- Wait for a program of this name, if it could be started, and report what went wrong.
endingOf :: (ByteString -> IO ()) -> ByteString -> Either Errno Int64 -> IO (Maybe Ending)
endingOf report name = \case
  Left e -> do
    report (quote name <> Char8.pack ": " <> errnoText e)
    pure Nothing
  Right pid ->
    waitProgram pid >>= \case
      Left e -> do
        report (Bytes.concat [Char8.pack "error waiting for ", quote name, Char8.pack ": ", errnoText e])
        pure Nothing
      Right ending -> do
        case ending of
          Killed signal -> report (Bytes.concat [quote name, Char8.pack " terminated by signal ", Char8.pack (show signal)])
          Exited _ -> pure ()
        pure (Just ending)

-- Add an entry, first running what would otherwise become too long. An entry whose directory cannot be held is an error: its name means
-- another file elsewhere.
addTo :: Programs -> Batch -> Entry -> ByteString -> IO ()
addTo programs batch v path = do
  depth <- if execInDirectory spec then entryDepth v else pure 0
  let (front, name) = if execInDirectory spec then splitPath depth path else (Bytes.empty, path)
      size = fromIntegral (Bytes.length name) + 1
  full <- withLock (batchLock batch) $ do
    filling@(Filling gathered used place) <- readRef (batchFilling batch)
    room <- readRef (batchRoom batch)
    let moved = execInDirectory spec && fmap fst place /= Just front && not (null gathered)
        crowded = not (null gathered) && used + size + fixed > room
        fresh = null gathered || moved || crowded
    held <-
      if execInDirectory spec && fresh
        then do
          directory <- if depth == 0 then pure here else entryDirectory v
          fmap (Just . (,) front) <$> holdDirectory directory (if depth == 0 then Just front else Nothing)
        else pure (Right place)
    for held $ \place' -> do
      writeRef (batchFilling batch) $
        if fresh then Filling [name] size place' else Filling (name : gathered) (used + size) place
      pure (if moved || crowded then Just filling else Nothing)
  either (\e -> report (quote front <> Char8.pack ": " <> errnoText e) >> markFailed v) (mapM_ (\filling -> void (flushOutput v) >> runFilling programs report batch filling)) full
  where
    spec = batchSpec batch
    report text = writeRecordTo v 2 (Bytes.concat [programsName programs, Char8.pack ": ", text, Char8.pack "\n"])
    fixed = sum [fromIntegral (Bytes.length w) + 1 | w <- execWords spec]

-- Run a batch; in halves where the system takes no command line of that length. (How long one may
-- be depends on the system's limits and on how much of it pointers take.)
runFilling :: Programs -> (ByteString -> IO ()) -> Batch -> Filling -> IO ()
runFilling programs report batch (Filling gathered _ place) = unless (null gathered) $ do
  programsFlush programs
  run (reverse gathered)
  forM_ place $ \(_, fd) -> when (fd >= 0) (closeFd (fromIntegral fd))
  where
    run names = do
      started <- spawnProgram (execWords (batchSpec batch) ++ names) (maybe here snd place) False
      let (front, behind) = splitAt (length names `quot` 2) names
      case started of
        Left E2BIG | not (null front) -> do
          modifyRef (batchRoom batch) (\room -> (min room (sum [fromIntegral (Bytes.length name) + 1 | name <- front]), ()))
          run front
          run behind
        _ -> do
          ending <- endingOf report (head (execWords (batchSpec batch) ++ names)) started
          unless (ending == Just (Exited 0)) (writeRef (programsFailed programs) True)

-- | Run what is left in the batches; 'False' if any batch of the run ended badly.
finishPrograms :: Programs -> IO Bool
finishPrograms programs = do
  forM_ (programsBatches programs) $ \batch -> do
    filling <- withLock (batchLock batch) $ do
      filling <- readRef (batchFilling batch)
      writeRef (batchFilling batch) (Filling [] 0 Nothing)
      pure filling
    runFilling programs (complain (programsName programs)) batch filling
  not <$> readRef (programsFailed programs)
