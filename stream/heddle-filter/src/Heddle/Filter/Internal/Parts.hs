-- |
-- Module      : Heddle.Filter.Internal.Parts
-- Description : The front of a plan on the parts of a large file, in parallel
-- Stability   : internal, exempt from the version policy
--
-- The file is cut into parts of some megabytes. Each worker takes the next part whenever it is
-- free, since cores are not equally fast at all times, and runs the front on the rows that
-- begin in it. The calling thread takes the results in the order of the file.
--
-- Cost: reading, and what the front costs. In memory: a buffer for each worker, and the results
-- of a few parts.
-- Owner: the calling thread, and the run's workers, which have ended when it returns.
module Heddle.Filter.Internal.Parts
  ( FileRange (..),
    readFileAt,
    Result (..),
    runParts,
  )
where

import Control.Monad (forM, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.Int (Int64)
import Data.Maybe (isNothing)
import Data.Sequence (Seq (..), (|>))
import Data.Sequence qualified as Seq
import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import Heddle.Filter.Internal.BlockRunner
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

-- | A piece of a part's output.
data Result
  = Piece !ByteString
  | -- | A row, with the number of rows before it in the part.
    Numbered !Int !ByteString

-- What a worker answers for a part.
data Answer
  = Unreadable SourceError
  | -- | A row is longer than the worker's buffer may be.
    LongRow
  | Done [Result] Outcome

-- How many parts a worker may be ahead of the collector.
partsAhead :: Int
partsAhead = 4

-- | Run the front on a file. The function takes the results of each part, in order, and says
-- whether it wants more. The answer is the beginning of a part with a row that is too long for
-- a worker, if there was one: the results of that part and those after it have not been taken.
--
-- [Throws]: 'SourceError' (that of the first part that cannot be read, if several cannot be);
-- what the function and the workers throw.
runParts :: FilterOptions -> Env -> Front -> FileRange -> ([Result] -> Outcome -> IO Bool) -> IO (Maybe Int64)
runParts options env front file consume = do
  let parts = partsOf options file
  assignment <- newAssignment parts
  workers <- forM [0 .. filterJobs options - 1] $ \i -> do
    queue <- Queue.newQueue partsAhead
    worker <- startWorker env i ("filter/part/" ++ show i) (partWorker options env front file (takePart assignment i) queue)
    pure (queue, worker)
  let collect = \case
        [] -> pure Nothing
        (begins, _) : others -> do
          owner <- nextOwner assignment
          Queue.take (fst (workers !! owner)) >>= \case
            Finished () -> pure Nothing
            Item (Unreadable e) -> throwIO e
            Item LongRow -> pure (Just begins)
            Item (Done results outcome) -> do
              wanted <- consume results outcome
              if wanted then collect others else pure Nothing
      stopAll = mapM_ (Queue.refuse . fst) workers <* mapM_ (joinWorker . snd) workers
  -- When this returns or throws, no worker reads the file any more, and it can be closed.
  left <- (collect parts <* stopAll) `onException` mapM_ (endWorker . snd) workers
  left <$ failureSoFar env

-- A file's parts: larger ones for a large file, but at least 16 for each worker.
partsOf :: FilterOptions -> FileRange -> [(Int64, Int64)]
partsOf options (FileRange _ _ from to) = [(a, min to (a + size)) | a <- [from, from + size .. to - 1]]
  where
    size = max least (min (4 * least) ((to - from) `div` (16 * fromIntegral (filterJobs options))))
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
  let loop = next >>= mapM_ (\part -> runPart front file runBlock buffer queue part >>= answered)
      answered answer = do
        wanted <- Queue.put queue answer
        case answer of
          Done {} -> when wanted loop
          _ -> pure ()
  loop
  Queue.finish queue ()
  where
    -- Without a search, the caller can go on without whole rows; with one it cannot.
    longest
      | isNothing (frontSearch front) = min (filterLongest options) (4 * filterPartSize options)
      | otherwise = filterLongest options

-- Run the front on one part.
runPart :: Front -> FileRange -> BlockRunner -> RowBuffer -> Queue Answer () -> (Int64, Int64) -> IO Answer
runPart front file runBlock buffer queue part = do
  results <- newRef []
  total <- newRef noOutcome
  let -- Strict: the copy is made before the block's memory is used again.
      keep !result = True <$ (readRef results >>= \kept -> writeRef results (result : kept))
      block bytes = do
        before <- readRef total
        outcome <- runBlock bytes (Emit (keep . Piece . Bytes.copy) (\i row -> keep (Numbered (outcomeRows before + i) (Bytes.copy row))))
        writeRef total $! Outcome (outcomeRows before + outcomeRows outcome) (outcomeCount before + outcomeCount outcome) True
        Queue.isWanted queue
  try (try (readPart buffer (readFileAt file) (fileFrom file, fileTo file) part block)) >>= \case
    Left e -> pure (Unreadable e)
    Right (Left tooLong)
      | isNothing (frontSearch front) -> pure LongRow
      | otherwise -> throwIO (tooLongRow tooLong)
    Right (Right ()) -> Done . reverse <$> readRef results <*> readRef total
