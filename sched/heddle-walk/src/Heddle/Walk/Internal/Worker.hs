{-# LANGUAGE PatternSynonyms #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Walk.Internal.Worker
-- Description : What a walk shares, what each worker owns
-- Stability   : internal, exempt from the version policy
--
-- The walk's options, visitor, descriptors and output; for each worker a cursor, a rope and
-- the 'Entry' that visitors see. Workers are made when they are first needed.
--
-- Cost: a worker takes about 135 KiB.
-- Owner: the walk.
module Heddle.Walk.Internal.Worker
  ( -- * The walk
    Walk (..),
    newWalk,
    closeWalk,
    flushWorkers,

    -- * Workers
    Worker (..),
    workerAt,
    showDirectory,

    -- * Going on
    goesOn,
    stopped,

    -- * Errors
    leftOut,
    reportAt,
    reportLoop,
  )
where

import Control.Monad (unless)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Internal qualified as ByteString (create)
import Heddle.Prim.Atomic
  ( Ref,
    Table,
    growTable,
    newRef,
    newTable,
    readEntry,
    readRef,
    tableSize,
    writeEntry,
    writeRef,
  )
import Heddle.Prim.Errno (Errno (..), errnoSentence, throwErrnoFor, pattern ENOENT)
import Heddle.Prim.Lock (Lock, newLock, withLock)
import Heddle.Prim.Thread (getCapabilities)
import Heddle.Walk.Internal.Cursor
import Heddle.Walk.Internal.Directory
import Heddle.Walk.Internal.Entry
import Heddle.Walk.Internal.Options
import Heddle.Walk.Internal.Output

-- | What all workers of a walk share.
data Walk = Walk
  { walkOptions :: !WalkOptions,
    walkVisitor :: !Visitor,
    -- | Is there one worker only?
    walkAlone :: !Bool,
    walkHolder :: !Holder,
    walkOut :: !Output,
    -- | By their number in the pool; replaced by a larger one under the lock.
    walkWorkers :: !(Ref (Table (Maybe Worker))),
    walkLock :: !Lock
  }

-- | What one worker owns.
data Worker = Worker
  { workerCursor :: !CursorPtr,
    workerRope :: !RopeWriter,
    workerVisit :: !Entry,
    -- | The directory whose entries are visited.
    workerDir :: !(Ref Dir)
  }

-- | A walk that has not begun.
newWalk :: WalkOptions -> Visitor -> IO Walk
newWalk options visitor = do
  out <-
    newOutput
      (walkOutput options)
      (walkErrors options)
      (walkOrder options == Sorted)
      (walkBuffer options)
      (walkBacklog options)
  table <- newTable 4 Nothing >>= newRef
  lock <- newLock
  holder <- newHolder (walkDescriptors options)
  workers <- max <$> getCapabilities <*> aloneUpTo
  let alone = walkSequential options || workers <= 1 || tooFew holder workers
  pure (Walk options visitor alone holder out table lock)

-- | Free what lies outside the heap. No worker may run any more.
closeWalk :: Walk -> IO ()
closeWalk walk = do
  eachWorker walk (freeCursor . workerCursor)
  closeHolder (walkHolder walk)

-- | In any order: write what the workers still have.
flushWorkers :: Walk -> IO ()
flushWorkers walk = unless (walkOrder (walkOptions walk) == Sorted) (eachWorker walk (flushRecords . workerRope))

eachWorker :: Walk -> (Worker -> IO ()) -> IO ()
eachWorker walk act = do
  table <- readRef (walkWorkers walk)
  mapM_ (\i -> readEntry table i >>= mapM_ act) [0 .. tableSize table - 1]

-- | The worker of a number.
--
-- [Cost]: a few loads; makes the worker when it is first asked for.
workerAt :: Walk -> Int -> IO Worker
workerAt walk i = do
  table <- readRef (walkWorkers walk)
  found <- if i < tableSize table then readEntry table i else pure Nothing
  maybe make pure found
  where
    make = withLock (walkLock walk) $ do
      table <- readRef (walkWorkers walk)
      large <-
        if i < tableSize table
          then pure table
          else growTable table (2 * i + 2) Nothing
      w <- newWorker walk
      writeEntry large i (Just w)
      writeRef (walkWorkers walk) large
      pure w

newWorker :: Walk -> IO Worker
newWorker walk = do
  cursor <- newCursor
  rope <- newRopeWriter (walkOut walk) cursor
  top <- newTop
  dir <- newRef top
  pure
    Worker
      { workerCursor = cursor,
        workerRope = rope,
        workerDir = dir,
        workerVisit =
          Entry
            { entryCursor = cursor,
              entryReopen = openAgain walk cursor dir,
              entryMakeRoom = makeRoom rope,
              entryFlush = flushAll rope,
              entryWriteTo = writeTo rope,
              entryError = reportErrnoOf walk rope cursor,
              entryStatusError = \e -> if leftOut walk e then pure () else reportErrnoOf walk rope cursor e,
              entryText = writeError rope,
              entryFailed = failRope rope
            }
      }

-- The visited directory's descriptor was given up.
openAgain :: Walk -> CursorPtr -> Ref Dir -> IO Int
openAgain walk cursor ref = do
  dir <- readRef ref
  fd <- openOr (walkHolder walk) dir (pure . fromIntegral)
  if fd < 0 && fd /= currentDirectory
    then throwErrnoFor "heddle walk: cannot open a directory again" (Errno (negate fd))
    else fd <$ writeInt32 cursor fieldDirectory fd

-- | Let the visit show entries of a directory, which is in use; whether status follows links.
showDirectory :: Worker -> Dir -> Int -> IO ()
showDirectory w dir follow = do
  writeRef (workerDir w) dir
  fd <- descriptor dir
  writeInt32 c fieldDirectory fd
  writeInt32 c fieldDepth (dirDepth dir + 1)
  writeField c fieldPrefix (dirPrefix dir)
  writeField c fieldRoot (dirRoot dir)
  writeInt32 c fieldFollow follow
  where
    c = workerCursor w

-- | Is there a reason to go on with what this worker does?
--
-- [Cost]: two loads, unless the walk was cut short.
goesOn :: Walk -> Worker -> IO Bool
goesOn walk w = do
  over <- isStopped (walkOut walk)
  if over
    then pure False
    else do
      cut <- isCut (walkOut walk)
      if cut then isLive (workerRope w) else pure True
{-# INLINE goesOn #-}

-- | Is the whole walk over?
stopped :: Walk -> IO Bool
stopped walk = isStopped (walkOut walk)
{-# INLINE stopped #-}

-- Errors ---------------------------------------------------------------------

-- | Is an entry that could not be read one that has vanished and is left out?
leftOut :: Walk -> Errno -> Bool
leftOut walk cause = cause == ENOENT && not (walkReportVanished (walkOptions walk))

reportErrnoOf :: Walk -> RopeWriter -> CursorPtr -> Errno -> IO ()
reportErrnoOf walk rope c e = do
  n <- cursorPath c
  p <- readPtr c fieldPath
  path <- ByteString.create n (\to -> moveBytes to p n)
  reportPath walk rope path e

-- | An error of the path in the path buffer, whose length is given.
reportAt :: Walk -> Worker -> Int -> Errno -> IO ()
reportAt walk w n e = do
  p <- readPtr (workerCursor w) fieldPath
  path <- ByteString.create n (\to -> moveBytes to p n)
  reportPath walk (workerRope w) path e

reportPath :: Walk -> RopeWriter -> RawPath -> Errno -> IO ()
reportPath walk rope path e = case walkOnError (walkOptions walk) of
  IgnoreErrors -> failRope rope
  StopAtErrors -> quitHere rope (FoundError (WalkError path e))
  ReportErrors -> do
    name <- quoted path
    writeError rope $
      ByteString.concat
        [walkProgram (walkOptions walk), Char8.pack ": ", name, Char8.pack ": ", sentence e, Char8.pack "\n"]

-- The C library's sentence as it is.
sentence :: Errno -> ByteString
sentence e = case errnoSentence e of
  c : rest | c >= 'a', c <= 'z' -> Char8.pack (toEnum (fromEnum c - 32) : rest)
  text -> Char8.pack text

-- | The entry visited is one of its own ancestors.
reportLoop :: Walk -> Worker -> Dir -> IO ()
reportLoop walk w ancestor = do
  n <- cursorPath c
  p <- readPtr c fieldPath
  path <- ByteString.create n (\to -> moveBytes to p n)
  let whole = ByteString.take (pathLength ancestor) path
  case walkOnError (walkOptions walk) of
    ReportErrors -> do
      here <- quoted path
      there <- quoted whole
      writeError (workerRope w) $
        ByteString.concat
          [ walkProgram (walkOptions walk),
            Char8.pack ": File system loop detected; ",
            here,
            Char8.pack " is part of the same file system loop as ",
            there,
            Char8.pack ".\n"
          ]
    _ -> failRope (workerRope w)
  where
    c = workerCursor w
