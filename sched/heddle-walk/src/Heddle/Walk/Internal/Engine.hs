{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Walk.Internal.Engine
-- Description : Directory trees on all cores
-- Stability   : internal, exempt from the version policy
--
-- The unit of work is a directory: opened and read whole in one foreign call, its entries
-- visited where they lie. Subdirectories are forked one by one, and other workers may steal
-- the continuation of the directory; see Note [How a directory is walked].
--
-- Cost: per entry about ten stores, no allocation; per directory two system calls more
-- than the kernel's share (open, close), about 600 bytes.
-- Owner: the caller of 'runWalk'; nothing outlives the call.
module Heddle.Walk.Internal.Engine
  ( runWalk,
    runWalkFrom,
    WalkResult (..),
  )
where

import Control.Monad (unless, when)
import Data.ByteString.Short (ShortByteString)
import Data.Foldable (traverse_)
import Heddle.Par.IO (ParIO, forkStolen, liftIO, runParIO, workerIndex)
import Heddle.Prim.Buffer (Buffer, bufferPtr, bufferSize, keepAlive)
import Heddle.Prim.Errno (Errno)
import Heddle.Prim.Exception (bracket)
import Heddle.Prim.Thread (raiseCapabilities)
import Heddle.Walk.Internal.Cursor
import Heddle.Walk.Internal.Directory
import Heddle.Walk.Internal.Entry
import Heddle.Walk.Internal.Options
import Heddle.Walk.Internal.Output
import Heddle.Walk.Internal.Visit
import Heddle.Walk.Internal.Worker

-- | How a walk ended.
data WalkResult = WalkResult
  { -- | Where it was stopped, if it was: by a visitor, or by an error under
    -- 'StopAtErrors'. In sorted order the leftmost such place.
    walkFound :: !(Maybe Found),
    -- | Was anything reported, so that a command's status should be 1?
    walkFailed :: !Bool,
    -- | Why the output could not be written; 'Heddle.Prim.Errno.EPIPE' when the reader
    -- has gone. The walk stopped there.
    walkProblem :: !(Maybe Errno)
  }
  deriving stock (Show)

-- | Walk the trees below some starting points, in the order given, and call the visitor for
-- each entry, on any worker of the pool.
--
-- [Cost]: see the module's header; 0.1 ms for an empty tree.
-- [Blocks]: parks until the walk is over; workers hold an OS thread while the disk is slow.
-- [Throws]: what a visitor throws; 'Heddle.Prim.Exception.IOException' if memory is short.
-- The walk has ended by then, and holds nothing.
-- [Threads]: any; visitors run on several at once.
runWalk :: WalkOptions -> [RawPath] -> Visitor -> IO WalkResult
runWalk options roots = walking options $ \walk -> do
  alone <- aloneUpTo
  rest <- case roots of
    -- In sorted post-order, another task than the starting point's may be the last, and write after it.
    [root] | alone > 0, walkOrder options /= Sorted || not (walkPostOrder options) -> begin walk root
    _ -> pure . Just $ start walk End roots >>= \(w, r) -> w <$ liftIO (dropReserve (workerRope w) r)
  traverse_ (\more -> onPool (more >>= liftIO . finishPort . workerRope)) rest

-- | As 'runWalk', with starting points that become known little by little: a few at a time, none at the
-- end. All of them have been walked, and everything they have caused is written, before more are asked for.
--
-- [Cost]: as 'runWalk', and a run of the pool each time that it asks.
-- [Blocks]: as 'runWalk', and as the question does.
-- [Throws]: as 'runWalk', and what the question throws.
-- [Threads]: as 'runWalk'; the calling thread asks, while nothing else runs.
runWalkFrom :: WalkOptions -> IO [RawPath] -> Visitor -> IO WalkResult
runWalkFrom options more = walking options (`go` End)
  where
    go walk s =
      more >>= \case
        [] -> finish walk s
        roots -> do
          s' <- onPool (start walk s roots >>= \(w, r) -> liftIO (dropReserve (workerRope w) r >> parkSegment (workerRope w)))
          flushWorkers walk
          drainParked (walkOut walk) s'
          over <- (||) <$> stopped walk <*> isCut (walkOut walk)
          if over then finish walk s' else go walk s'
    finish walk s = onPool $ do
      w <- workerIndex >>= liftIO . workerAt walk
      liftIO (takeSegment (workerRope w) s >> finishPort (workerRope w))

walking :: WalkOptions -> (Walk -> IO ()) -> Visitor -> IO WalkResult
walking options act visitor =
  bracket (newWalk options visitor) closeWalk $ \walk -> do
    act walk
    flushWorkers walk
    WalkResult <$> foundIn (walkOut walk) <*> hasFailed (walkOut walk) <*> writeProblem (walkOut walk)

-- Starting points ------------------------------------------------------------

-- Walk from these, going on with a segment if one was left; the worker at the end, and its reserve.
start :: Walk -> Link -> [RawPath] -> ParIO (Worker, Link)
start walk s roots = do
  w <- workerIndex >>= liftIO . workerAt walk
  top <- liftIO (takeSegment (workerRope w) s >> newTop)
  go top w End roots
  where
    go top w r = \case
      [] -> pure (w, r)
      root : more -> do
        child <- liftIO (visitRoot walk w top root)
        case child of
          Nothing -> go top w r more
          Just name -> forkChild walk w top r False name (\w' r' -> go top w' r' more)

-- The same from one starting point, on the calling thread, which is the program's only one, up to the first directory that has
-- others in it. A small search has none, and so needs neither the pool nor a second thread of the system, for which it
-- would wait on a busy machine. The rest, if there is one, and the worker that it ends on.
begin :: Walk -> RawPath -> IO (Maybe (ParIO Worker))
begin walk root = do
  w <- workerAt walk 0
  top <- newTop
  child <- visitRoot walk w top root
  case child of
    Nothing -> over w
    Just name -> do
      acquire (walkHolder walk) top (use + todo)
      when (walkPostOrder options) (expect top)
      openChild walk w top End name >>= \case
        Nothing -> over w
        Just dir ->
          (if sorted then visitFirst walk w dir else visitAll walk w dir) >>= \case
            Nothing -> leave walk w dir End True >> over w
            Just block -> Just . enterOnPool dir block <$> parkSegment (workerRope w)
  where
    options = walkOptions walk
    sorted = walkOrder options == Sorted
    over w = Nothing <$ finishPort (workerRope w)
    enterOnPool dir block s = do
      w <- workerIndex >>= liftIO . workerAt walk
      liftIO (rebuildPath (workerCursor w) dir >> takeSegment (workerRope w) s)
      (if sorted then enterInOrder else enterEach) walk w dir block

onPool :: ParIO a -> IO a
onPool run = do
  capabilities <- endAlone
  when (capabilities > 1) (raiseCapabilities capabilities)
  runParIO run

-- Directories ----------------------------------------------------------------

-- Fork a child of a directory, in which the caller has a 'todo' of its own and, if `held`, a
-- use that goes over to the child. Then go on, on whichever worker that is, without a use,
-- with the directory's path in the worker's buffer and with what is left of the reserve.
forkChild :: Walk -> Worker -> Dir -> Link -> Bool -> ShortByteString -> (Worker -> Link -> ParIO a) -> ParIO a
forkChild walk w dir r held name continue = do
  r' <- liftIO $ do
    acquire (walkHolder walk) dir (if held then todo else todo + use)
    when post (expect dir)
    case r of
      End -> reserveNext (workerRope w)
      _ -> pure r
  gone <- run $ do
    w' <- enter walk w dir r' name
    unless post (liftIO (endTask (workerRope w') r'))
  if gone
    then do
      w' <- workerIndex >>= liftIO . workerAt walk
      usedUp <- liftIO $ do
        rebuildPath (workerCursor w') dir
        resumeStolen (workerRope w') r'
      continue w' (if usedUp then End else r')
    else do
      liftIO (resumeSame (workerRope w) r')
      continue w r'
  where
    post = walkPostOrder (walkOptions walk)
    run child
      | walkAlone walk = False <$ child
      | otherwise = forkStolen child

-- Open a directory, visit its entries and enter its subdirectories. The caller's use and
-- 'todo' of the parent go over to it. The worker that it ends on.
enter :: Walk -> Worker -> Dir -> Link -> ShortByteString -> ParIO Worker
enter walk w parent fork name = do
  opened <- liftIO (openChild walk w parent fork name)
  case opened of
    Nothing -> pure w
    Just dir
      | walkOrder (walkOptions walk) == Sorted -> enterSorted walk w dir
      | otherwise -> enterAny walk w dir

-- Any order ------------------------------------------------------------------

enterAny :: Walk -> Worker -> Dir -> ParIO Worker
enterAny walk w dir =
  liftIO (visitAll walk w dir) >>= \case
    Nothing -> w <$ liftIO (leave walk w dir End True)
    Just block -> enterEach walk w dir block

-- Enter packed directories; the caller's use goes over to the first.
enterEach :: Walk -> Worker -> Dir -> Buffer -> ParIO Worker
enterEach walk worker dir block = go True worker 0
  where
    post = walkPostOrder (walkOptions walk)
    size = bufferSize block
    go held w !at = do
      alive <- liftIO (goesOn walk w)
      (name, next) <- liftIO (nameIn block at)
      if not alive
        then w <$ liftIO (leave walk w dir End held)
        else
          if next < size || post
            then forkChild walk w dir End held name $ \w' _ ->
              if next < size
                then go False w' next
                else w' <$ liftIO (leave walk w' dir End False)
            else do
              -- The last one takes over the use and the 'todo'.
              liftIO (unless held (acquire (walkHolder walk) dir use))
              enter walk w dir End name

-- Sorted ---------------------------------------------------------------------

enterSorted :: Walk -> Worker -> Dir -> ParIO Worker
enterSorted walk w dir =
  liftIO (visitFirst walk w dir) >>= \case
    Nothing -> w <$ liftIO (leave walk w dir End True)
    Just block -> enterInOrder walk w dir block

-- Packed entries, of which the first is to be entered, with the caller's use.
enterInOrder :: Walk -> Worker -> Dir -> Buffer -> ParIO Worker
enterInOrder walk worker dir block = go worker End 0
  where
    post = walkPostOrder (walkOptions walk)
    size = bufferSize block
    -- The entry is to be entered; the caller has a use.
    go w r !at = do
      (name, next) <- liftIO (nameIn block at)
      if next < size || post
        then forkChild walk w dir r True name (rest next)
        else do
          liftIO (dropReserve (workerRope w) r)
          enter walk w dir End name
    rest !next w r = do
      alive <- liftIO (goesOn walk w)
      if next >= size || not alive
        then w <$ liftIO (leave walk w dir r False)
        else do
          at <- liftIO $ do
            acquire (walkHolder walk) dir use
            showDirectory w dir (followFlag walk)
            at <- visitUntil walk w dir (bufferPtr block) next size
            at <$ keepAlive block
          if at < 0
            then w <$ liftIO (leave walk w dir r True)
            else go w r at

-- Note [How a directory is walked]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- 1. 'openChild' writes the name after the parent's path in the worker's buffer, opens the
--    directory relative to the parent's descriptor and reads its entries into the worker's
--    buffer, in one foreign call.
-- 2. The entries are visited where they lie. What has still to be entered is copied out,
--    once: in any order the subdirectories, sorted everything from the first subdirectory on.
--    From then on the buffer is free for the first child.
-- 3. For each subdirectory 'forkChild' runs the child at once and pushes the continuation of the
--    loop, which idle workers may steal. If it comes back unstolen, the child has ended on this
--    worker, and path and output are where they were. If it was stolen, the thief writes the
--    path into its own buffer and takes the output over (Note [Segments]).
-- 4. In pre-order the last subdirectory is entered by a tail call that takes over the
--    descriptor's last use: a chain of any depth takes no stack, and two descriptors.
-- 5. In post-order a directory counts its tasks; the last to end visits it, and goes on to its
--    parent.
