-- |
-- Module      : Heddle.Filter.Internal.FrontRun
-- Description : Runs a plan that has a front
-- Stability   : internal, exempt from the version policy
--
-- Each source is read in one of four ways ('Mode'). A front that searches gets blocks of whole
-- rows, in a buffer that is reused. A large file is divided among workers, if there are any.
-- Without a search, one thread takes pieces as they come: it holds no more of a row than the
-- stages do, and takes over from the workers where a row is too long for them.
--
-- Cost: reading, and what the plan costs. In memory: a buffer, and those of the workers.
-- Owner: the calling thread.
module Heddle.Filter.Internal.FrontRun
  ( runWithFront,
    pieceSize,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Internal (fromForeignPtr, mallocByteString)
import Data.Foldable (for_)
import Data.Int (Int64)
import Data.Maybe (fromMaybe, isJust, isNothing)
import Data.Word (Word8)
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr)
import Heddle.Bytes.Search.Block (bestLevel, findByteAt)
import Heddle.Filter.Internal.BlockRunner
import Heddle.Filter.Internal.Lowering
import Heddle.Filter.Internal.Machine
import Heddle.Filter.Internal.Options
import Heddle.Filter.Internal.Parts
import Heddle.Filter.Internal.Plan
import Heddle.Filter.Internal.Print (printStage)
import Heddle.Filter.Internal.Rows
import Heddle.Filter.Internal.Source
import Heddle.Filter.Internal.Types
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Exception
import Heddle.Prim.File (readAt)

-- | How many bytes are read at once where whole rows are not needed.
pieceSize :: Int
pieceSize = 65536

-- | Run a plan that has a front. The sink is the machine of the plan's rest.
--
-- [Throws]: as 'Heddle.Filter.runPlan'.
runWithFront :: FilterOptions -> Env -> Plan -> [Source] -> Sink -> IO ()
runWithFront options env plan sources sink = do
  run <- newRun options env plan sink
  runSources run sources
  endPieces run
  wanted <- readRef (runWanted run)
  lastRow <- pendingRow (runBuffer run)
  when (wanted && not (Bytes.null lastRow)) (void (runOneBlock run (printer run) lastRow))
  for_ (frontCount (runFront run)) $ \_ -> do
    count <- readRef (runCount run)
    push sink (Char8.pack (shows count "\n"))
  finish sink

-- The run ------------------------------------------------------------------------

-- What the steps share.
data Run = Run
  { runOptions :: !FilterOptions,
    runEnv :: !Env,
    runFront :: !Front,
    -- | What the front's output is pushed into.
    runSink :: !Sink,
    -- | Does the sink keep pieces? Then those in reused memory are copied.
    runSinkKeeps :: !Bool,
    -- | Called with the name of a binary file that has a row to print, if such rows are not
    -- printed.
    runOnBinary :: !(Maybe (ByteString -> IO ())),
    -- | The front, on a block of whole rows.
    runBlock :: !BlockRunner,
    -- | Between sources, it holds the beginning of a row that none of them has ended.
    runBuffer :: !RowBuffer,
    -- | The front as a machine that takes pieces, while it is in use.
    runPieces :: !(Ref (Maybe Sink)),
    -- | Did the pieces so far end within a row?
    runWithinRow :: !(Ref Bool),
    -- | The rows so far, if they are numbered.
    runRows :: !(Ref Int),
    -- | What the front has counted so far.
    runCount :: !(Ref Int),
    -- | Is more output wanted?
    runWanted :: !(Ref Bool)
  }

newRun :: FilterOptions -> Env -> Plan -> Sink -> IO Run
newRun options env plan sink = do
  blockRunner <- newBlockRunner env front
  buffer <- newRowBuffer env (filterBlockSize options)
  pieces <- newRef Nothing
  withinRow <- newRef False
  rows <- newRef 0
  count <- newRef 0
  wanted <- newRef True
  pure
    Run
      { runOptions = options,
        runEnv = env,
        runFront = front,
        runSink = sink,
        runSinkKeeps = planRest plan /= Identity,
        runOnBinary = if printsRows then filterOnBinary options else Nothing,
        runBlock = blockRunner,
        runBuffer = buffer,
        runPieces = pieces,
        runWithinRow = withinRow,
        runRows = rows,
        runCount = count,
        runWanted = wanted
      }
  where
    front = planFront plan
    -- Binary files matter only if their rows are printed.
    printsRows = isJust (frontSearch front) && frontStage front == Identity && isNothing (frontCount front) && planRest plan == Identity

-- Does the front take pieces of any size, since it does not search?
takesPieces :: Run -> Bool
takesPieces = isNothing . frontSearch . runFront

-- Add the outcome of a block.
account :: Run -> Outcome -> IO ()
account run outcome = do
  add (runRows run) (outcomeRows outcome)
  add (runCount run) (outcomeCount outcome)
  unless (outcomeWanted outcome) (wantNoMore run)
  where
    add total n = readRef total >>= \before -> writeRef total $! before + n

wantNoMore :: Run -> IO ()
wantNoMore run = writeRef (runWanted run) False

-- Sources --------------------------------------------------------------------

runSources :: Run -> [Source] -> IO ()
runSources run = \case
  [] -> pure ()
  source : others -> do
    wanted <- readRef (runWanted run)
    when wanted $ do
      runSource run (null others) source `catch` filterOnError (runOptions run)
      runSources run others

-- How a source is read.
data Mode
  = -- | A binary file whose rows are not printed: if it has a row to print, run this action.
    Probe (IO ())
  | -- | A large file, by several workers.
    InParts FileRange
  | -- | Pieces as they come.
    InPieces
  | -- | Blocks of whole rows.
    InBlocks

runSource :: Run -> Bool -> Source -> IO ()
runSource run isLast source = withSource source $ \input ->
  modeFor run isLast source input >>= \case
    Probe report -> inBlocks input (probeBlock run report)
    InParts file -> runFileInParts run file
    InPieces -> runPiecesFrom run (openedRead input)
    InBlocks -> inBlocks input (runOneBlock run (printer run))
  where
    inBlocks input consume = readRows (runBuffer run) (openedRead input) consume `catch` (throwIO . tooLongRow)

modeFor :: Run -> Bool -> Source -> Opened -> IO Mode
modeFor run isLast source input = do
  binary <- if isJust (runOnBinary run) then startsBinary input else pure False
  case (runOnBinary run, openedFile input) of
    (Just report, _) | binary -> pure (Probe (report (sourceName source)))
    (_, Just (fd, from, to)) | isDivisible run (to - from) -> do
      -- The rows of the file must be its own: a row must not begin before it or end after it.
      begun <- if takesPieces run then readRef (runWithinRow run) else (> 0) <$> pendingBytes (runBuffer run)
      whole <- if isLast then pure True else openedWhole input
      pure (if whole && not begun then InParts (FileRange (sourceName source) fd from to) else oneThread)
    _ -> pure oneThread
  where
    oneThread = if takesPieces run then InPieces else InBlocks

-- Can a file of this size be divided among workers?
isDivisible :: Run -> Int64 -> Bool
isDivisible run size =
  filterJobs options > 1
    -- Commands run in the order of the rows, and none after the last row that is wanted.
    && not (startsCommands (frontStage (runFront run)))
    && size >= 2 * fromIntegral (filterPartSize options)
  where
    options = runOptions run

-- Does a regular file have a NUL near its beginning?
startsBinary :: Opened -> IO Bool
startsBinary input = case openedFile input of
  Nothing -> pure False
  Just (fd, from, to) -> do
    let size = fromIntegral (min 32768 (to - from))
    allocaBytes (max 1 size) $ \p -> do
      n <- readAt fd p size from
      if n <= 0 then pure False else (>= 0) <$> findByteAt bestLevel p n 0

-- Blocks ---------------------------------------------------------------------

-- Run the front on a block of whole rows. 'False': no more is wanted.
runOneBlock :: Run -> Emit -> ByteString -> IO Bool
runOneBlock run emit block = do
  outcome <- runBlock run block emit
  account run outcome
  flushAll (runEnv run)
  readRef (runWanted run)

-- Push the front's output into the sink.
printer :: Run -> Emit
printer run =
  Emit
    { emitPiece = \piece -> push sink $! (if copies then Bytes.copy piece else piece),
      emitRow = \i row -> do
        before <- readRef (runRows run)
        push sink $! Bytes.concat [Char8.pack (show (before + i + 1)), between, row]
    }
  where
    !sink = runSink run
    !copies = runSinkKeeps run
    between = fromMaybe Bytes.empty (frontSearch (runFront run) >>= searchNumber)

-- Report whether a block of a binary file has a row to print. 'False': one was found.
probeBlock :: Run -> IO () -> ByteString -> IO Bool
probeBlock run report block = do
  found <- newRef False
  let stop = False <$ writeRef found True
  outcome <- runBlock run block (Emit (const stop) (\_ _ -> stop))
  account run outcome {outcomeWanted = True}
  hit <- readRef found
  when hit report
  pure (not hit)

-- Parts ----------------------------------------------------------------------

runFileInParts :: Run -> FileRange -> IO ()
runFileInParts run file = do
  endPieces run
  let Emit piece row = printer run
      told ok = ok <$ unless ok (wantNoMore run)
      partDone outcome = do
        account run outcome
        flushAll (runEnv run)
        readRef (runWanted run)
  left <- runParts (runOptions run) (runEnv run) (runFront run) file (Emit (\p -> piece p >>= told) (\i r -> row i r >>= told)) partDone
  for_ left $ \at -> do
    place <- newRef at
    runPiecesFrom run $ \p room -> do
      from <- readRef place
      n <- readFileAt file p (fromIntegral (min (fromIntegral room) (fileTo file - from))) from
      n <$ writeRef place (from + fromIntegral n)

-- Pieces ---------------------------------------------------------------------

-- Read pieces and push them through the front, until there are no more or none is wanted.
runPiecesFrom :: Run -> (Ptr Word8 -> Int -> IO Int) -> IO ()
runPiecesFrom run reading = loop
  where
    size = min pieceSize (filterBlockSize (runOptions run))
    loop = do
      memory <- mallocByteString size
      n <- withForeignPtr memory (`reading` size)
      when (n > 0) $ do
        let piece = fromForeignPtr memory 0 n
        writeRef (runWithinRow run) (Bytes.last piece /= 0x0a)
        machine <- pieceMachine run
        ok <- push machine piece
        unless ok (wantNoMore run)
        flushAll (runEnv run)
        wanted <- readRef (runWanted run)
        when wanted loop

-- The front as a machine that takes pieces, made when it is first needed.
pieceMachine :: Run -> IO Sink
pieceMachine run =
  readRef (runPieces run) >>= \case
    Just machine -> pure machine
    Nothing -> do
      end' <- case frontCount front of
        Nothing -> pure (Sink give (pure ()))
        Just s -> countingSink s env {envStage = printStage (Count s)} (\n -> account run (Outcome 0 n True))
      machine <- lowerStage (frontStage front) env end'
      machine <$ writeRef (runPieces run) (Just machine)
  where
    front = runFront run
    env = (runEnv run) {envTopLevel = False}
    give piece = push (runSink run) piece >>= \ok -> ok <$ unless ok (wantNoMore run)

-- End that machine, if there is one.
endPieces :: Run -> IO ()
endPieces run =
  readRef (runPieces run) >>= mapM_ (\machine -> writeRef (runPieces run) Nothing >> finish machine)
