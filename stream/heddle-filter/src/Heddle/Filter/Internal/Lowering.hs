-- |
-- Module      : Heddle.Filter.Internal.Lowering
-- Description : Lowers stages to machines
-- Stability   : internal, exempt from the version policy
--
-- A stage becomes a sink that pushes into the sink downstream. On the pipeline's top level, the
-- stages after ':||' or after a command become a sink on another thread.
--
-- Cost: a call for each piece and stage; 'ForEach' makes a machine for each section, unless
-- its stage has no state.
-- Owner: the thread that runs the machine.
module Heddle.Filter.Internal.Lowering
  ( lowerStage,
    countingSink,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe qualified as Bytes
import Data.Foldable (for_)
import Data.Sequence (Seq (..), (|>))
import Data.Sequence qualified as Seq
import Heddle.Bytes.Search (countByte)
import Heddle.Filter.Internal.AsyncBoundary
import Heddle.Filter.Internal.Batch
import Heddle.Filter.Internal.Command
import Heddle.Filter.Internal.Fields
import Heddle.Filter.Internal.Machine
import Heddle.Filter.Internal.MemoryBudget
import Heddle.Filter.Internal.Print (printStage)
import Heddle.Filter.Internal.SplitterLowering
import Heddle.Filter.Internal.Tail (lastRows, lastSections)
import Heddle.Filter.Internal.Types
import Heddle.Prim.Atomic (modifyRef, newRef, readRef, writeRef)

-- | The machine of a stage. It pushes the stage's output into a sink, and finishes that sink.
lowerStage :: Stage -> Env -> Sink -> IO Sink
lowerStage stage env to
  | envTopLevel env = lowerPipeline (reverse (links stage)) env to
  | otherwise = lowerOne stage env to

-- The links of a pipeline.
data Link
  = OneStage Stage
  | Boundary
  | Program ByteString

links :: Stage -> [Link]
links stage = go stage []
  where
    -- A difference list, so that a long chain is not copied at each link.
    go = \case
      a :> b -> go a . go b
      a :|| b -> go a . (Boundary :) . go b
      Command text -> (Program text :)
      one -> (OneStage one :)

-- From the last stage to the first. The stages that run on one thread flush together.
lowerPipeline :: [Link] -> Env -> Sink -> IO Sink
lowerPipeline stages env to = do
  last' <- withOwnFlushes env
  onFlush last' (envFinalFlush env)
  go stages to last'
  where
    go [] sink here = onFlush env (flushAll here) >> pure sink
    go (link : others) sink here = case link of
      OneStage stage -> lowerOne stage (inside here) sink >>= \made -> go others made here
      Boundary -> boundary (asyncBoundary here)
      Program text -> boundary (streamCommand text here)
      where
        boundary make = do
          above <- withOwnFlushes here {envBoundaries = envBoundaries here + 1}
          made <- make above sink
          go others made above

lowerOne :: Stage -> Env -> Sink -> IO Sink
lowerOne stage around to = case stage of
  Identity -> pure to
  Suppress -> pure (Sink (\_ -> pure False) (finish to))
  a :> b -> lowerOne b env to >>= lowerOne a env
  a :|| b -> lowerOne (a :> b) env to
  If (Last n Row) Identity Suppress -> lastRows n env to
  If (Last n s) Identity Suppress -> lastSections n s (inside env) to
  If s a b -> conditional s a b env to
  ForEach s a b -> lowerForEach s a b env to
  Count s -> countingSink s env (\n -> push to (Char8.pack (shows n "\n")) >> finish to)
  Number between -> before (Char8.pack (show (envRow env)) <> between) to
  Numbers -> numbering to
  Prepend text -> before text to
  Append text -> pure to {finish = unless (Bytes.null text) (void (push to text)) >> finish to}
  Instead text -> pure (ignoring (\_ -> pure ()) (unless (Bytes.null text) (void (push to text)) >> finish to))
  Translate t -> pure to {push = push to . translateAll t}
  Fields ranges separator between -> fieldsOf ranges separator between env to
  Join joint a b -> joined joint a b env to
  Command text -> wholeCommand text env to
  where
    env = around {envStage = printStage stage}

-- A stage inside another shares what is downstream with its siblings.
inside :: Env -> Env
inside env = env {envTopLevel = False}

-- Push a text first, even if no input follows.
before :: ByteString -> Sink -> IO Sink
before text to = do
  told <- newRef (Bytes.null text)
  let tell = do
        done <- readRef told
        unless done (writeRef told True >> void (push to text))
  pure (Sink (\piece -> tell >> push to piece) (tell >> finish to))

conditional :: Splitter -> Stage -> Stage -> Env -> Sink -> IO Sink
conditional s a b env to = do
  label <- newRef False
  -- Is more input wanted: does downstream want more, and can a side still output something?
  wanting <- newRef (not (isSilent a && isSilent b))
  wantA <- newRef (not (isSilent a))
  wantB <- newRef (not (isSilent b))
  let shared =
        Sink
          { push = \piece -> do
              ok <- push to piece
              unless ok (writeRef wanting False)
              pure ok,
            finish = pure ()
          }
      enough true = do
        let side = if true then wantA else wantB
        before' <- readRef side
        when before' $ do
          writeRef side False
          other <- readRef (if true then wantB else wantA)
          unless other (writeRef wanting False)
  sinkA <- lowerStage a (inside env) shared
  sinkB <- lowerStage b (inside env) shared
  lowerSplitter s (inside env) $
    Sections
      { begin = writeRef label,
        more = \piece -> do
          true <- readRef label
          ok <- push (if true then sinkA else sinkB) piece
          unless ok (enough true),
        end = pure (),
        -- The other side gets no more sections.
        rest = enough . not,
        wantsMore = readRef wanting,
        over = finish sinkA >> finish sinkB >> finish to
      }

lowerForEach :: Splitter -> Stage -> Stage -> Env -> Sink -> IO Sink
lowerForEach s a b env to = do
  wanting <- newRef True
  row <- newRef (1 :: Int)
  now <- newRef silent
  let shared =
        Sink
          { push = \piece -> do
              ok <- push to piece
              unless ok (writeRef wanting False)
              pure ok,
            finish = pure ()
          }
      counts = usesNumber a || usesNumber b
      -- Stages without state need no machine of their own for each section.
      fresh = \case
        Identity -> pure shared
        Suppress -> pure silent
        Translate t -> lowerStage (Translate t) (inside env) shared
        Instead text -> lowerStage (Instead text) (inside env) shared
        Number between -> do
          n <- readRef row
          _ <- push shared (Char8.pack (show n) <> between)
          pure shared
        stage -> do
          n <- readRef row
          lowerStage stage (inside env) {envRow = n} shared
  lowerSplitter s (inside env) $
    Sections
      { begin = \label -> do
          -- After the last section that is wanted, no machine is made: it might start a command.
          ok <- readRef wanting
          when ok (fresh (if label then a else b) >>= writeRef now),
        more = \piece -> do
          sink <- readRef now
          _ <- push sink piece
          when counts (readRef row >>= \n -> writeRef row $! n + countByte 0x0a piece),
        end = do
          sink <- readRef now
          finish sink
          writeRef now silent,
        rest = \label -> when (isSilent (if label then a else b)) (writeRef wanting False),
        wantsMore = readRef wanting,
        over = finish to
      }
  where
    silent = Sink (\_ -> pure False) (pure ())

-- | A sink that counts true sections, and passes the count on at the end.
countingSink :: Splitter -> Env -> (Int -> IO ()) -> IO Sink
countingSink s env done = do
  count <- newRef (0 :: Int)
  case s of
    -- Count where runs of members begin, without a call for each section.
    Runs set -> do
      inRun <- newRef False
      let step (!was, !n) b = case inSet set b of
            True | not was -> (True, n + 1)
            now -> (now, n)
          take' piece = do
            before' <- readRef inRun
            n <- readRef count
            let (!after, !n') = Bytes.foldl' step (before', n) piece
            writeRef inRun after
            writeRef count n'
      pure (ignoring take' (readRef count >>= done))
    -- Rows are counted by their ends.
    _ | s == Row || s == Line -> do
      open <- newRef False
      let take' piece = do
            n <- readRef count
            writeRef count $! n + countByte 0x0a piece
            writeRef open $! Bytes.last piece /= 0x0a
      pure (ignoring take' ((\n unended -> n + fromEnum unended) <$> readRef count <*> readRef open >>= done))
    _ ->
      lowerSplitter s (inside env) $
        Sections
          { begin = \label -> when label (readRef count >>= \n -> writeRef count $! n + 1),
            more = \_ -> pure (),
            end = pure (),
            rest = \_ -> pure (),
            wantsMore = pure True,
            over = readRef count >>= done
          }

numbering :: Sink -> IO Sink
numbering to = do
  count <- newRef (0 :: Int)
  inRow <- newRef False
  wanting <- newRef True
  let go piece = unless (Bytes.null piece) $ do
        open <- readRef inRow
        unless open $ do
          n <- (+ 1) <$> readRef count
          writeRef count n
          ok <- push to (Char8.pack (shows n "\n"))
          unless ok (writeRef wanting False)
        case Bytes.elemIndex 0x0a piece of
          Nothing -> writeRef inRow True
          Just i -> do
            writeRef inRow False
            more' <- readRef wanting
            when more' (go (Bytes.unsafeDrop (i + 1) piece))
  pure (Sink (\piece -> go piece >> readRef wanting) (finish to))

fieldsOf :: [FieldRange] -> Maybe ByteString -> ByteString -> Env -> Sink -> IO Sink
fieldsOf ranges separator between env to = case ranges of
  [FieldRange n (Just m)]
    | n == m,
      maybe True ((== 1) . Bytes.length) separator ->
      byBlocks env (fieldOfEach n (Bytes.head <$> separator)) to
  _ -> byRows env (given . selectFields ranges separator between) (finish to)
  where
    given piece = if Bytes.null piece then pure True else push to piece

-- A sink that passes on what becomes of several whole rows; the last may lack its newline.
byBlocks :: Env -> (ByteString -> ByteString) -> Sink -> IO Sink
byBlocks env made to = do
  budget <- newBudget env
  kept <- newRef []
  wanting <- newRef True
  let give block = do
        let piece = made block
        ok <- if Bytes.null piece then pure True else push to piece
        unless ok (writeRef wanting False)
      -- As much as stays in the cache.
      blocks text = unless (Bytes.null text) $ do
        let short = Bytes.unsafeTake (min 32768 (Bytes.length text)) text
            n = maybe (maybe (Bytes.length text) (+ 1) (Bytes.elemIndex 0x0a text)) (+ 1) (Bytes.elemIndexEnd 0x0a short)
        give (Bytes.unsafeTake n text)
        more' <- readRef wanting
        when more' (blocks (Bytes.unsafeDrop n text))
      keep piece = unless (Bytes.null piece) (charge budget piece >> modifyRef kept (\pieces -> (piece : pieces, ())))
      ended earlier = writeRef kept [] >> refund budget (sum (map Bytes.length earlier))
      go piece = do
        earlier <- readRef kept
        case if null earlier then Nothing else Bytes.elemIndex 0x0a piece of
          Just i -> do
            ended earlier
            give (Bytes.concat (reverse (Bytes.unsafeTake (i + 1) piece : earlier)))
            more' <- readRef wanting
            when more' (go (Bytes.unsafeDrop (i + 1) piece))
          Nothing -> do
            let whole = maybe 0 (+ 1) (Bytes.elemIndexEnd 0x0a piece)
            blocks (Bytes.unsafeTake whole piece)
            keep (Bytes.unsafeDrop whole piece)
  pure . Sink (\piece -> go piece >> readRef wanting) $ do
    earlier <- readRef kept
    unless (null earlier) (ended earlier >> give (Bytes.concat (reverse earlier)))
    finish to

-- A sink that passes on whole rows; the last may lack its newline.
byRows :: Env -> (ByteString -> IO Bool) -> IO () -> IO Sink
byRows env take' done = do
  budget <- newBudget env
  kept <- newRef []
  wanting <- newRef True
  let give row = take' row >>= \ok -> unless ok (writeRef wanting False)
      go piece = unless (Bytes.null piece) $ case Bytes.elemIndex 0x0a piece of
        Nothing -> charge budget piece >> modifyRef kept (\pieces -> (piece : pieces, ()))
        Just i -> do
          earlier <- readRef kept
          let here = Bytes.unsafeTake (i + 1) piece
          if null earlier
            then give here
            else do
              writeRef kept []
              refund budget (sum (map Bytes.length earlier))
              give (Bytes.concat (reverse (here : earlier)))
          more' <- readRef wanting
          when more' (go (Bytes.unsafeDrop (i + 1) piece))
  pure $
    Sink
      (\piece -> go piece >> readRef wanting)
      ( do
          earlier <- readRef kept
          unless (null earlier) (give (Bytes.concat (reverse earlier)))
          done
      )

joined :: Joint -> Stage -> Stage -> Env -> Sink -> IO Sink
joined joint a b env to = case joint of
  Flipped other -> joined other b a env to
  Appending -> do
    budget <- newBudget env
    later <- newRef Seq.empty
    wanting <- newRef True
    first <- lowerStage a (inside env) (Sink (passed wanting) (pure ()))
    batch <- newBatch (kept later)
    second <- lowerStage b (inside env) (ignoring (\piece -> charge budget piece >> void (append batch piece)) (pure ()))
    twice wanting first second (pure ()) $ do
      _ <- passOn batch
      pieces <- readRef later
      for_ pieces (push to)
      finish to
  Interleaving -> turns (\pass x y -> pass x >> pass y) (void . push to)
  Zipping -> turns (\pass x y -> pass (withoutEnd x <> y)) (\_ -> pure ())
  where
    passed wanting piece = push to piece >>= \ok -> ok <$ unless ok (writeRef wanting False)
    -- Push into both until neither wants more, or downstream does not.
    twice wanting first second between done = do
      wantsA <- newRef True
      wantsB <- newRef True
      -- A side that wants no more gets no more: it might start commands.
      let give wants sink piece = do
            open <- readRef wants
            when open (push sink piece >>= writeRef wants)
            readRef wants
      pure $
        Sink
          ( \piece -> do
              downstream <- readRef wanting
              if downstream
                then do
                  a' <- give wantsA first piece
                  b' <- give wantsB second piece
                  () <- between
                  still <- readRef wanting
                  pure (still && (a' || b'))
                else pure False
          )
          (finish first >> finish second >> between >> done)
    withoutEnd row = if not (Bytes.null row) && Bytes.last row == 0x0a then Bytes.init row else row
    -- @pair@ gets a row of each, @alone@ the rows left over at the end.
    turns pair alone = do
      budget <- newBudget env
      rowsA <- newRef Seq.empty
      rowsB <- newRef Seq.empty
      batchA <- newBatch (kept rowsA)
      batchB <- newBatch (kept rowsB)
      wanting <- newRef True
      let put batch row = charge budget row >> append batch row
          drain = passOn batchA >> passOn batchB >> pairs
          pairs = do
            queueA <- readRef rowsA
            queueB <- readRef rowsB
            case (firstRow queueA, firstRow queueB) of
              (Just (x, xs), Just (y, ys)) -> do
                refund budget (Bytes.length x + Bytes.length y)
                writeRef rowsA xs
                writeRef rowsB ys
                ok <- pair (passed wanting) x y
                when ok pairs
              _ -> pure ()
      first <- byRows env (put batchA) (pure ()) >>= lowerStage a (inside env)
      second <- byRows env (put batchB) (pure ()) >>= lowerStage b (inside env)
      twice wanting first second drain $ do
        readRef rowsA >>= mapM_ alone
        readRef rowsB >>= mapM_ alone
        finish to
    kept rows piece = True <$ modifyRef rows (\pieces -> (pieces |> piece, ()))
    -- Rows are kept whole, several in a piece: only the last one of all may lack its newline.
    firstRow = \case
      Empty -> Nothing
      piece :<| others -> Just $ case Bytes.elemIndex 0x0a piece of
        Just i | i + 1 < Bytes.length piece -> (Bytes.unsafeTake (i + 1) piece, Bytes.unsafeDrop (i + 1) piece :<| others)
        _ -> (piece, others)
