-- |
-- Module      : Heddle.Filter.Internal.Run
-- Description : Plans at work
-- Stability   : internal, exempt from the version policy
--
-- Reads sources one after the other as one stream, and runs a plan on it. A front that searches
-- for rows gets blocks of whole rows, in a buffer that is used again and again. On more than
-- one core, each worker reads its own parts of a large file in such blocks, and what it makes of
-- them is taken in order. Without a search, one core takes pieces as they come: it holds no more
-- of a row than the stages do, and takes over from the workers where a row is too long for them.
--
-- Cost: reading, and what the plan costs. In memory: a buffer for each worker, and a few
-- parts' results.
-- Owner: the calling thread, and the run's workers, which have ended when it returns.
module Heddle.Filter.Internal.Run
  ( Settings (..),
    defaultSettings,
    runPlan,
  )
where

import Control.Monad (forM, unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Internal (fromForeignPtr, mallocByteString)
import Data.Foldable (for_)
import Data.Int (Int64)
import Data.Maybe (fromMaybe, isJust, isNothing)
import Data.Sequence (Seq (..), (|>))
import Data.Sequence qualified as Seq
import Data.Word (Word8)
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr)
import Heddle.Bytes.Search.Block (bestLevel, findByteAt)
import Heddle.Filter.Internal.Machine
import Heddle.Filter.Internal.Plan
import Heddle.Filter.Internal.Print (printStage)
import Heddle.Filter.Internal.Ring
import Heddle.Filter.Internal.Rows
import Heddle.Filter.Internal.Source
import Heddle.Filter.Internal.Staging
import Heddle.Filter.Internal.Tail (beforeLastRows, leadingTail)
import Heddle.Filter.Internal.Types
import Heddle.Filter.Internal.Work
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef, writeRef)
import Heddle.Prim.Errno (Errno (..))
import Heddle.Prim.Exception
import Heddle.Prim.File (readAt)
import Heddle.Prim.WaitCell (newWaitCell, park, unpark)
import System.IO (SeekMode (..))
import System.Posix.IO.ByteString (fdSeek)
import System.Posix.Types (Fd)

-- | How to run.
data Settings = Settings
  { -- | How many workers at most.
    settingJobs :: !Int,
    -- | How many bytes are read at once, at first.
    settingBlock :: !Int,
    -- | How many bytes of a file a worker takes at once, and up to four times as many of a
    -- large one; files of less than two parts are not worked on in parallel.
    settingPart :: !Int,
    -- | How large a row may be, and what a stage may hold back.
    settingLongest :: !Int,
    -- | Do not print rows of a file that has a NUL; call this with its name instead, once.
    settingBinary :: !(Maybe (ByteString -> IO ())),
    -- | Called when all that has been read so far has been pushed into the sink, by the thread
    -- that pushes.
    settingFlush :: !(IO ()),
    -- | A source could not be read; the run goes on with the next.
    settingComplain :: !(SourceError -> IO ())
  }

-- | One worker, blocks of 128 KiB, parts of 2 MiB, rows of up to 256 MiB, binary files as any.
defaultSettings :: (SourceError -> IO ()) -> Settings
defaultSettings = Settings 1 131072 2097152 268435456 Nothing (pure ())

-- | Run a plan on some sources, and push what comes out into a sink.
--
-- [Cost]: see the module's header.
-- [Blocks]: until the sources have ended, or nothing more is wanted.
-- [Throws]: 'StageFailed', 'TooLong', what the sink throws.
runPlan :: Settings -> Plan -> [Source] -> Sink -> IO ()
runPlan settings p sources out = withEnv (settingLongest settings) (settingFlush settings) $ \env -> do
  rest' <- machine (planRest p) env out
  if isNothingGained (planFront p)
    then pour settings env (leadingTail (planRest p)) sources rest'
    else runFront settings env p sources rest'
  -- What other threads have still to do is done here.
  failureSoFar env

-- Without a front: pieces as they come. Where only the last rows are wanted, what is in front of
-- a regular file's last rows is not read.
pour :: Settings -> Env -> Maybe Int -> [Source] -> Sink -> IO ()
pour settings env rows sources sink = do
  wanted <- newRef True
  for_ sources $ \source -> do
    go <- readRef wanted
    when go . reporting settings $
      withSource source $ \input -> do
        for_ ((,) <$> rows <*> openedFile input) $ \(n, (fd, from, to)) ->
          when (to - from > fromIntegral pieceSize) $ do
            place <- beforeLastRows (readAt fd) pieceSize (from, to) n
            when (place > from) (void (fdSeek fd AbsoluteSeek (fromIntegral place)))
        let loop = do
              memory <- mallocByteString pieceSize
              n <- withForeignPtr memory (\to -> openedRead input to pieceSize)
              when (n > 0) $ do
                ok <- push sink (fromForeignPtr memory 0 n)
                turn env
                if ok then loop else writeRef wanted False
        loop
  finish sink

-- How many bytes are read at once where rows do not matter.
pieceSize :: Int
pieceSize = 65536

reporting :: Settings -> IO () -> IO ()
reporting settings action = action `catch` settingComplain settings

-- Fronts ---------------------------------------------------------------------

-- What the blocks have come to so far.
data Total = Total
  { totalRows :: !(Ref Int),
    totalCount :: !(Ref Int),
    -- | Does anybody want more?
    totalWanted :: !(Ref Bool)
  }

-- Something that came out of a part of a file, in order.
data Result
  = Piece !ByteString
  | Numbered !Int !ByteString

runFront :: Settings -> Env -> Plan -> [Source] -> Sink -> IO ()
runFront settings env p sources sink = do
  total <- Total <$> newRef 0 <*> newRef 0 <*> newRef True
  work <- newWork env front
  -- What it holds between sources is the beginning of a row that none of them has ended.
  buffer <- newRowBuffer env (settingBlock settings)
  -- Without a search: the machine that takes pieces, and whether these ended within a row.
  streaming <- newRef Nothing
  withinRow <- newRef False
  let stream =
        readRef streaming >>= \case
          Just made -> pure made
          Nothing -> do
            let inside = env {envSpine = False}
                give piece = push sink piece >>= \ok -> ok <$ unless ok (writeRef (totalWanted total) False)
            ends <- case frontCount front of
              Nothing -> pure (Sink give (pure ()))
              Just s -> counter s inside {envStage = printStage (Count s)} (\n -> account (Outcome 0 n True))
            made <- machine (frontStage front) inside ends
            made <$ writeRef streaming (Just made)
      endStream = readRef streaming >>= mapM_ (\made -> writeRef streaming Nothing >> finish made)
      readPieces reading = do
        let size = min pieceSize (settingBlock settings)
        memory <- mallocByteString size
        n <- withForeignPtr memory (`reading` size)
        when (n > 0) $ do
          let piece = fromForeignPtr memory 0 n
          writeRef withinRow (Bytes.last piece /= 0x0a)
          made <- stream
          ok <- push made piece
          unless ok (writeRef (totalWanted total) False)
          turn env
          wanted <- readRef (totalWanted total)
          when wanted (readPieces reading)
      -- A block is worked on at once.
      direct emit block = do
        outcome <- work block emit
        account outcome
        turn env
        readRef (totalWanted total)
      account outcome = do
        readRef (totalRows total) >>= \n -> writeRef (totalRows total) $! n + outcomeRows outcome
        readRef (totalCount total) >>= \n -> writeRef (totalCount total) $! n + outcomeCount outcome
        unless (outcomeWanted outcome) (writeRef (totalWanted total) False)
      printing =
        Emit
          { emitPiece = \piece -> push sink $! (if copies then Bytes.copy piece else piece),
            emitRow = \i row -> do
              before <- readRef (totalRows total)
              push sink $! Bytes.concat [Char8.pack (show (before + i + 1)), between, row]
          }
      source isLast one = withSource one $ \input -> do
        pending <- if streams then readRef withinRow else (> 0) <$> pendingBytes buffer
        whole <- if isLast then pure True else openedWhole input
        binary <- if isJust watching then startsBinary input else pure False
        case openedFile input of
          _ | binary, Just tell <- watching -> readRows buffer (openedRead input) (glance (tell (sourceName one))) `catch` (throwIO . tooLongRow)
          Just (fd, from, to)
            | settingJobs settings > 1,
              -- Commands run in the order of the rows, and none behind the last one wanted.
              not (startsCommands (frontStage front)),
              not pending,
              whole,
              to - from >= 2 * fromIntegral (settingPart settings) -> do
              endStream
              left <- inParts settings env front (sourceName one) fd from to $ \results outcome -> do
                pushResults results
                account outcome
                turn env
                readRef (totalWanted total)
              for_ left $ \part -> do
                place <- rowFrom (sourceName one) fd from part >>= newRef
                readPieces $ \to' n -> do
                  at <- readRef place
                  r <- readingAt (sourceName one) fd to' (fromIntegral (min (fromIntegral n) (to - at))) at
                  r <$ writeRef place (at + fromIntegral r)
          _ | streams -> readPieces (openedRead input)
          _ -> readRows buffer (openedRead input) (direct printing) `catch` (throwIO . tooLongRow)
      pushResults results = do
        wanted <- readRef (totalWanted total)
        case results of
          result : others | wanted -> do
            ok <- case result of
              Piece piece -> emitPiece printing piece
              Numbered i row -> emitRow printing i row
            unless ok (writeRef (totalWanted total) False)
            pushResults others
          _ -> pure ()
      -- Of a binary file, it is told whether it has such a row; then it is left.
      glance tell block = do
        found <- newRef False
        let stop = False <$ writeRef found True
        rows <- outcomeRows <$> work block (Emit (const stop) (\_ _ -> stop))
        readRef (totalRows total) >>= \n -> writeRef (totalRows total) $! n + rows
        hit <- readRef found
        when hit tell
        pure (not hit)
      go = \case
        [] -> pure ()
        one : others -> do
          wanted <- readRef (totalWanted total)
          when wanted (reporting settings (source (null others) one) >> go others)
  go sources
  endStream
  wanted <- readRef (totalWanted total)
  lastRow <- pendingRow buffer
  when (wanted && not (Bytes.null lastRow)) (void (direct printing lastRow))
  for_ (frontCount front) $ \_ -> readRef (totalCount total) >>= \n -> push sink (Char8.pack (shows n "\n"))
  finish sink
  where
    front = planFront p
    streams = isNothing (frontSearch front)
    between = fromMaybe Bytes.empty (frontSearch front >>= searchNumber)
    -- What takes the pieces may keep them.
    copies = planRest p /= Identity
    -- Where it is rows that are printed.
    watching
      | isJust (frontSearch front), frontStage front == Identity, isNothing (frontCount front), planRest p == Identity = settingBinary settings
      | otherwise = Nothing

-- Does a regular file have a NUL near its beginning?
startsBinary :: Opened -> IO Bool
startsBinary input = case openedFile input of
  Nothing -> pure False
  Just (fd, from, to) -> do
    let size = fromIntegral (min 32768 (to - from))
    allocaBytes (max 1 size) $ \p -> do
      n <- readAt fd p size from
      if n <= 0 then pure False else (>= 0) <$> findByteAt bestLevel p n 0

-- Parts of a file that are left, and the workers of those that were taken, in order.
data Shares = Shares [(Int64, Int64)] !(Seq Int)

-- What a worker answers for a part.
data Answer
  = Failed SourceError
  | -- | A row is longer than the worker's buffer may be; stages may be able to do without.
    LongRow
  | Done [Result] Outcome

-- How many parts a worker may be ahead of what is printed.
partsAhead :: Int
partsAhead = 4

-- A large file, by workers that take its next part whenever they are free: cores are not
-- equally fast at all times. What takes the results says whether it wants more. The answer is
-- where a part begins that had too long a row; it and those behind it have not been taken.
inParts :: Settings -> Env -> Front -> ByteString -> Fd -> Int64 -> Int64 -> ([Result] -> Outcome -> IO Bool) -> IO (Maybe Int64)
inParts settings env front name fd from to take' = do
  let jobs = settingJobs settings
      least = fromIntegral (settingPart settings)
      size = max least (min (4 * least) ((to - from) `div` (16 * fromIntegral jobs)))
      parts = [(a, min to (a + size)) | a <- [from, from + size .. to - 1]]
  -- Parts that nobody has taken yet, and which workers took those that have still to be collected.
  shares <- newRef (Shares parts Seq.empty)
  taken <- newWaitCell
  let next i = do
        part <- modifyRef shares $ \case
          Shares [] owners -> (Shares [] owners, Nothing)
          Shares (part : others) owners -> (Shares others (owners |> i), Just part)
        part <$ unpark taken
      ownerOfNext =
        modifyRef shares (\case Shares left (i :<| owners) -> (Shares left owners, Just i); none -> (none, Nothing)) >>= \case
          Just i -> pure i
          Nothing -> park taken >> ownerOfNext
  -- One failure of reading is told by the thread that runs the plan.
  rings <- forM [0 .. jobs - 1] $ \i -> do
    ring <- newRing partsAhead
    worker <- startWorker env i ("filter/part/" ++ show i) (partWorker settings env front name fd (from, to) (next i) ring)
    pure (ring, worker)
  let collect = \case
        [] -> pure Nothing
        (begins, _) : others -> do
          i <- ownerOfNext
          takeItem (fst (rings !! i)) >>= \case
            Nothing -> pure Nothing
            Just (Failed e) -> throwIO e
            Just LongRow -> pure (Just begins)
            Just (Done results outcome) -> do
              wanted <- take' results outcome
              if wanted then collect others else pure Nothing
  left <-
    (collect parts <* mapM_ (noMore . fst) rings <* mapM_ (joinWorker . snd) rings)
      -- Nobody reads the file any more when it is closed.
      `onException` mapM_ (endWorker . snd) rings
  left <$ failureSoFar env

-- Read at a place; the name is for messages.
readingAt :: ByteString -> Fd -> Ptr Word8 -> Int -> Int64 -> IO Int
readingAt name fd p n at = do
  r <- readAt fd p n at
  if r >= 0 then pure r else throwIO (SourceError name (Errno (negate r)))

-- Where the first row begins that begins in a part, or behind it.
rowFrom :: ByteString -> Fd -> Int64 -> Int64 -> IO Int64
rowFrom name fd from part
  | part <= from = pure from
  | otherwise = allocaBytes pieceSize (\p -> go p (part - 1))
  where
    go p at = do
      n <- readingAt name fd p pieceSize at
      newline <- if n <= 0 then pure 0 else findByteAt bestLevel p n 0x0a
      if newline < 0 then go p (at + fromIntegral n) else pure (at + fromIntegral newline + 1)

partWorker :: Settings -> Env -> Front -> ByteString -> Fd -> (Int64, Int64) -> IO (Maybe (Int64, Int64)) -> Ring Answer -> IO ()
partWorker settings around front name fd range next ring = do
  env <- withOwnTurns around {envSpine = False}
  work <- newWork env front
  -- With a search, nobody else takes longer rows.
  let most = if isNothing (frontSearch front) then min (settingLongest settings) (4 * settingPart settings) else settingLongest settings
  buffer <- newRowBuffer env {envLimit = most} (settingBlock settings)
  let go =
        next
          >>= mapM_
            ( \part -> do
                collected <- newRef []
                sum' <- newRef noOutcome
                let -- At once: it is a copy of memory that is used again.
                    keep !result = True <$ (readRef collected >>= \rs -> writeRef collected (result : rs))
                    block bytes = do
                      before <- readRef sum'
                      outcome <- work bytes (Emit (keep . Piece . Bytes.copy) (\i row -> keep (Numbered (outcomeRows before + i) (Bytes.copy row))))
                      writeRef sum' $! Outcome (outcomeRows before + outcomeRows outcome) (outcomeCount before + outcomeCount outcome) True
                      isWanted ring
                result <- try (try (readPart buffer (readingAt name fd) range part block))
                answer <- case result of
                  Left e -> pure (Failed e)
                  Right (Left LongerThan {}) | isNothing (frontSearch front) -> pure LongRow
                  Right (Left e) -> throwIO (tooLongRow e)
                  Right (Right ()) -> do
                    results <- readRef collected
                    outcome <- readRef sum'
                    pure (Done (reverse results) outcome)
                wanted <- putItem ring answer
                case answer of
                  Done {} -> when wanted go
                  _ -> pure ()
            )
  go
  closeRing ring
