-- |
-- Module      : Heddle.Filter.Internal.Parts
-- Description : The front of a plan on the parts of a large file, in parallel
-- Stability   : internal, exempt from the version policy
--
-- The file is cut into parts of some megabytes. Each worker takes the next part whenever it is
-- free, since cores are not equally fast at all times, and runs the front on the rows that
-- begin in it. The calling thread takes their output in the order of the file, in chunks: a worker that is ahead waits once
-- its chunks are full, until its part's turn comes.
--
-- Cost: reading, and what the front costs. In memory: a buffer for each worker, and its chunks, which hold twice
-- 'filterPartSize' bytes of output.
-- Owner: the calling thread, and the run's workers, which have ended when it returns.
module Heddle.Filter.Internal.Parts
  ( FileRange (..),
    readFileAt,
    runParts,
  )
where

import Control.Monad (forM, when)
import Data.ByteString (ByteString)
import Data.Int (Int64)
import Data.Maybe (isJust, isNothing)
import Data.Sequence (Seq (..), (|>))
import Data.Sequence qualified as Seq
import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import Heddle.Filter.Internal.BlockRunner
import Heddle.Filter.Internal.Chunks
import Heddle.Filter.Internal.Exception (SourceError (..))
import Heddle.Filter.Internal.Machine
import Heddle.Filter.Internal.Options
import Heddle.Filter.Internal.Plan
import Heddle.Filter.Internal.Rows
import Heddle.Filter.Internal.Worker
import Heddle.Pipe.Queue (Queue, Taken (..))
import Heddle.Pipe.Queue qualified as Queue
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef, writeRef)
import Heddle.Prim.Errno (Errno (..))
import Heddle.Prim.Exception
import Heddle.Prim.File (readAt)
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, unpark)
import System.Posix.Types (Fd)

-- | The bytes of a regular file that are read: the offset of the first, and of the end.
data FileRange = FileRange
  { -- | For messages.
    fileName :: !ByteString,
    fileFd :: !Fd,
    fileFrom :: !Int64,
    fileTo :: !Int64
  }

-- | Read at an offset, up to this many bytes; 0 at the end.
--
-- [Throws]: 'SourceError'.
readFileAt :: FileRange -> Ptr Word8 -> Int -> Int64 -> IO Int
readFileAt file p n at = do
  r <- readAt (fileFd file) p n at
  if r >= 0 then pure r else throwIO (SourceError (fileName file) (Errno (negate r)))

-- What a worker answers: chunks of its parts' output.
data Answer
  = Some !ByteString
  | -- | The last chunk of a part.
    Last !ByteString !Outcome !Ending

-- How the work on a part has ended.
data Ending
  = Complete
  | -- | The row that begins at this offset is longer than the worker's buffer may be. The rows before it are done.
    LongRow !Int64
  | Unreadable !SourceError

-- How many bytes a chunk has.
chunkBytes :: FilterOptions -> Int
chunkBytes options = min 65536 (filterBlockSize options)

-- How many chunks a worker may be ahead of the collector: two parts, if their output is as large as they are.
chunksAhead :: FilterOptions -> Int
chunksAhead options = max 2 (2 * filterPartSize options `div` chunkBytes options)

-- | Run the front on a file. The consumer gets the output of each part, in order, and the action that is run at the end of
-- each part says whether more is wanted. The answer is the beginning of a row that is too long for a worker, if there was
-- one: that row and what follows has not been worked on.
--
-- [Throws]: 'SourceError' (that of the first part that cannot be read, if several cannot be);
-- what the consumer and the workers throw.
runParts :: FilterOptions -> Env -> Front -> FileRange -> Emit -> (Outcome -> IO Bool) -> IO (Maybe Int64)
runParts options env front file emit partDone = do
  let parts = partsOf options front file
  assignment <- newAssignment parts
  workers <- forM [0 .. filterJobs options - 1] $ \i -> do
    queue <- Queue.newQueue (chunksAhead options)
    worker <- startWorker env i ("filter/part/" ++ show i) (partWorker options env front file (takePart assignment i) queue)
    pure (queue, worker)
  let collect = \case
        [] -> pure Nothing
        _ : others -> do
          owner <- nextOwner assignment
          collectPart others (fst (workers !! owner))
      collectPart others queue =
        Queue.take queue >>= \case
          Finished () -> pure Nothing
          Item (Some chunk) -> emitted chunk >>= \ok -> if ok then collectPart others queue else pure Nothing
          Item (Last chunk outcome ending) -> do
            ok <- emitted chunk
            wanted <- partDone outcome {outcomeWanted = ok}
            case ending of
              _ | not wanted -> pure Nothing
              Complete -> collect others
              LongRow at -> pure (Just at)
              Unreadable e -> throwIO e
      emitted = emitChunk (isFramed front) (emitPiece emit) (emitRow emit)
      stopAll = mapM_ (Queue.refuse . fst) workers <* mapM_ (joinWorker . snd) workers
  -- When this returns or throws, no worker reads the file any more, and it can be closed.
  left <- (collect parts <* stopAll) `onException` mapM_ (endWorker . snd) workers
  left <$ failureSoFar env

-- Are the chunks' rows numbered by the collector?
isFramed :: Front -> Bool
isFramed front = isJust (frontSearch front >>= searchNumber)

-- A file's parts: larger ones for a large file of which nothing is put out, but at least 16 for each worker.
partsOf :: FilterOptions -> Front -> FileRange -> [(Int64, Int64)]
partsOf options front (FileRange _ _ from to) = [(a, min to (a + size)) | a <- [from, from + size .. to - 1]]
  where
    size
      | isJust (frontCount front) = max least (min (4 * least) ((to - from) `div` (16 * fromIntegral (filterJobs options))))
      | otherwise = least
    least = fromIntegral (filterPartSize options)

-- Which parts are left, and which workers took those whose results have not been collected.
data Assignment = Assignment
  { assignmentState :: !(Ref Assigned),
    -- | Wakes the collector.
    assignmentCell :: !WaitCell
  }

-- The parts that are left, and the numbers of the workers that took the others, in order.
data Assigned = Assigned [(Int64, Int64)] !(Seq Int)

newAssignment :: [(Int64, Int64)] -> IO Assignment
newAssignment parts = Assignment <$> newRef (Assigned parts Seq.empty) <*> newWaitCell

-- The next part, for the worker with this number.
takePart :: Assignment -> Int -> IO (Maybe (Int64, Int64))
takePart assignment worker = do
  part <- modifyRef (assignmentState assignment) $ \case
    Assigned [] owners -> (Assigned [] owners, Nothing)
    Assigned (part : others) owners -> (Assigned others (owners |> worker), Just part)
  part <$ unpark (assignmentCell assignment)

-- The worker that took the next part to collect; parks until one has.
nextOwner :: Assignment -> IO Int
nextOwner assignment = do
  owner <- modifyRef (assignmentState assignment) $ \case
    Assigned left (owner :<| owners) -> (Assigned left owners, Just owner)
    none -> (none, Nothing)
  maybe (park (assignmentCell assignment) >> nextOwner assignment) pure owner

-- Take parts and put their answers, until there are no more or one cannot be worked on.
partWorker :: FilterOptions -> Env -> Front -> FileRange -> IO (Maybe (Int64, Int64)) -> Queue Answer () -> IO ()
partWorker options around front file next queue = do
  env <- withOwnFlushes around {envTopLevel = False}
  runBlock <- newBlockRunner env front
  buffer <- newRowBuffer env {envLimit = longest} (filterBlockSize options)
  chunks <- newChunks (chunkBytes options) (chunksAhead options) (Queue.put queue . Some)
  let loop = next >>= mapM_ (\part -> runPart front file runBlock buffer chunks queue part >>= answered)
      answered (outcome, ending) = do
        chunk <- takeChunk chunks
        wanted <- Queue.put queue (Last chunk outcome ending)
        case ending of
          Complete -> when wanted loop
          _ -> pure ()
  loop
  Queue.finish queue ()
  where
    -- Without a search, the caller can go on without whole rows; with one it cannot.
    longest
      | isNothing (frontSearch front) = min (filterLongest options) (4 * filterPartSize options)
      | otherwise = filterLongest options

-- Run the front on one part; its output goes into the chunks.
runPart :: Front -> FileRange -> BlockRunner -> RowBuffer -> Chunks -> Queue Answer () -> (Int64, Int64) -> IO (Outcome, Ending)
runPart front file runBlock buffer chunks queue part = do
  total <- newRef noOutcome
  let block bytes = do
        before <- readRef total
        outcome <- runBlock bytes (Emit (appendPiece chunks) (appendRow chunks . (outcomeRows before +)))
        writeRef total $! Outcome (outcomeRows before + outcomeRows outcome) (outcomeCount before + outcomeCount outcome) True
        Queue.isWanted queue
  ending <-
    try (try (readPart buffer (readFileAt file) (fileFrom file, fileTo file) part block)) >>= \case
      Left e -> pure (Unreadable e)
      Right (Left tooLong)
        | isNothing (frontSearch front) -> pure (LongRow (rowBegin tooLong))
        | otherwise -> throwIO (tooLongRow tooLong)
      Right (Right ()) -> pure Complete
  (\outcome -> (outcome, ending)) <$> readRef total
