{-# LANGUAGE DataKinds #-}

-- |
-- Module      : Heddle.MPI.Internal.ValueCollective
-- Description : Collectives of values
-- Stability   : internal, exempt from the version policy
--
-- One of MPI's collectives carries a block of fixed size for each rank: whether there is a value,
-- its length, and as much of it as fits. The rest follows in a second collective where every rank
-- sees the block, and otherwise in messages between ranks.
--
-- A rank without a value, because evaluating it threw, says so in its block. Where only some ranks
-- would notice a failure, all ranks agree on success at the end; see 'verdict'.
--
-- Cost: up to 'blockRoom' bytes per rank, one of MPI's collectives.
-- Owner: each rank's calling thread, while it has its turn on the duplicate that it passes in.
module Heddle.MPI.Internal.ValueCollective
  ( valueBcast,
    valueScatter,
    valueGather,
    valueAllgather,
    valueAlltoall,
    valueReduce,
    valueAllreduce,
    valueScan,
    valueExscan,
  )
where

import Control.Monad (forM, forM_, void, when)
import Control.Monad.IO.Class (liftIO)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes, fillBytes)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import Heddle.MPI.Internal.Buffer ()
import Heddle.MPI.Internal.Collective
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Foreign (Asked (..))
import Heddle.MPI.Internal.Message
import Heddle.MPI.Internal.PackedMessage
import Heddle.MPI.Internal.Point
import Heddle.MPI.Internal.Request (Request)
import Heddle.MPI.Internal.Steps
import Heddle.MPI.Internal.Tree
import Heddle.MPI.Internal.Types
import Heddle.Prim.Buffer (Buffer, bufferPtr, keepAlive, newBuffer)
import Heddle.Prim.Exception

-- The size of a block, and its room for message bytes: the other bytes are the length, -1 for none.
blockBytes, blockRoom :: Int
blockBytes = 1024
blockRoom = blockBytes - 16

-- The tags of message rests that do not fit into blocks, and of trees.
restTag, treeTag :: Tag
restTag = 2
treeTag = 3

-- A message in one buffer, or the exception that prevented it.
type Wanted = Either SomeException (Buffer, Int)

prepare :: Message a => a -> Steps Wanted
prepare a = computing (trySync (bytesOf a))

writeBlock :: Ptr Word8 -> Wanted -> IO ()
writeBlock at = \case
  Left _ -> fillBytes at 0 blockBytes >> pokeByteOff at 0 (-1 :: Int)
  Right (memory, n) -> do
    let here = min n blockRoom
    pokeByteOff at 0 n
    pokeByteOff at 8 (0 :: Int)
    copyBytes (at `plusPtr` 16) (bufferPtr memory) here
    fillBytes (at `plusPtr` (16 + here)) 0 (blockRoom - here)
    keepAlive memory

blockLength :: Buffer -> Int -> IO Int
blockLength blocks i = peekByteOff (blockAt blocks i) 0 <* keepAlive blocks

-- A message that fits into its block. It is copied out, because the value may keep a slice.
fromBlock :: Buffer -> Int -> Int -> IO Buffer
fromBlock blocks i n = do
  memory <- newBuffer (max 16 n)
  copyBytes (bufferPtr memory) (blockAt blocks i `plusPtr` 16) n
  keepAlive blocks
  pure memory

place :: Comm 'Intra -> Steps (Int, Int)
place comm = liftIO ((\size (Rank rank) -> (size, rank)) <$> commSize comm <*> commRank comm)

-- One of MPI's collectives, on bytes. For each direction: the memory, the number of blocks, and the
-- bytes of each.
onBytes :: String -> KindCode -> Comm 'Intra -> Rank -> Maybe (Buffer, Int, Int) -> Maybe (Buffer, Int, Int) -> Steps ()
onBytes call kind comm root out into = do
  outSide <- liftIO (maybe (pure noSide) sendSide (whole <$> out))
  intoSide <- liftIO (maybe (pure noSide) receiveSide (whole <$> into))
  performingIt (collective call kind comm (exchanging (outSide, maybe 0 each out) (intoSide, maybe 0 each into)) {exchangeRoot = root})
  where
    whole (memory, blocks, n) = (memory, blocks * n)
    each (_, _, n) = n

remote :: String -> Int -> IO a
remote call rank = wrong RemoteError call ("rank " ++ show rank ++ " has no value")

checkRoot :: String -> Int -> Rank -> Steps ()
checkRoot call size root =
  when (root < 0 || fromIntegral root >= size) . liftIO . agreed $ wrong InvalidRoot call (show root ++ " of " ++ show size ++ " ranks")

-- Consecutive blocks.
newBlocks :: Int -> Steps Buffer
newBlocks n = liftIO (newBuffer (max 16 (n * blockBytes)))

blockAt :: Buffer -> Int -> Ptr Word8
blockAt memory i = bufferPtr memory `plusPtr` (i * blockBytes)

problemOf :: Either SomeException a -> Maybe SomeException
problemOf = either Just (const Nothing)

-- Agree across ranks whether the call succeeded, then return its value or throw.
judged :: String -> Comm 'Intra -> Either SomeException a -> Steps a
judged call shadow answer = verdict call shadow (problemOf answer) >> either (liftIO . throwIO) pure answer

-- | 'Heddle.MPI.Simple.bcast'.
valueBcast :: Message a => Rank -> a -> Comm 'Intra -> Steps a
valueBcast root a shadow = do
  (size, rank) <- place shadow
  checkRoot "bcast" size root
  let here = Rank rank == root
  wanted <- if here then Just <$> prepare a else pure Nothing
  block <- newBlocks 1
  liftIO (mapM_ (writeBlock (bufferPtr block)) wanted)
  onBytes "bcast" kBcast shadow root Nothing (Just (block, 1, blockBytes))
  n <- liftIO (blockLength block 0)
  case wanted of
    -- All ranks have seen the block, so no verdict is needed.
    Just (Left e) -> liftIO (agreed (throwIO e))
    _ | n < 0 -> liftIO (agreed (remote "bcast" (fromIntegral root)))
    _ -> do
      memory <- case wanted of
        Just (Right (mine, _)) -> pure mine
        _ -> liftIO (if n <= blockRoom then fromBlock block 0 n else newBuffer n)
      when (n > blockRoom) (onBytes "bcast" kBcast shadow root Nothing (Just (memory, 1, n)))
      judged "bcast" shadow =<< if here then pure (Right a) else computing (trySync (decodeOr "bcast" (" from rank " ++ show root) memory 0 n))

-- The values of messages from ranks, or the first failure.
allOf :: [Either SomeException a] -> Either SomeException [a]
allOf = sequence

-- A rank's message: in its block, or sent after it.
arrived :: Message a => String -> Comm 'Intra -> Buffer -> Int -> Int -> Steps (Either SomeException a)
arrived call shadow blocks i r = do
  n <- liftIO (blockLength blocks i)
  if n < 0
    then liftIO (trySync (remote call r))
    else do
      memory <- liftIO (if n <= blockRoom then fromBlock blocks i n else newBuffer n)
      when (n > blockRoom) (void (arriving shadow (Rank r) restTag (memory, n)))
      computing (trySync (decodeOr call (" from rank " ++ show r) memory 0 n))

-- The rest of a message that does not fit into its block.
sendRest :: Comm 'Intra -> Int -> Wanted -> Steps [Request ()]
sendRest shadow to = \case
  Right (memory, n) | n > blockRoom -> pure <$> liftIO (isend shadow (Rank to) restTag (memory, n))
  _ -> pure []

-- This rank's own value is used directly; without one, its exception is the failure.
own :: Wanted -> a -> Either SomeException a
own wanted a = a <$ wanted

-- | 'Heddle.MPI.Simple.gather'.
valueGather :: Message a => Rank -> a -> Comm 'Intra -> Steps (Maybe [a])
valueGather root a shadow = do
  (size, rank) <- place shadow
  checkRoot "gather" size root
  let here = Rank rank == root
  wanted <- prepare a
  block <- newBlocks 1
  liftIO (writeBlock (bufferPtr block) wanted)
  blocks <- newBlocks (if here then size else 0)
  onBytes "gather" kGather shadow root (Just (block, 1, blockBytes)) (if here then Just (blocks, size, blockBytes) else Nothing)
  if here
    then do
      values <- forM [0 .. size - 1] $ \r ->
        if r == rank then pure (own wanted a) else arrived "gather" shadow blocks r r
      Just <$> judged "gather" shadow (allOf values)
    else do
      rest <- sendRest shadow (fromIntegral root) wanted
      mapM_ waiting rest
      Nothing <$ judged "gather" shadow wanted

-- | 'Heddle.MPI.Simple.scatter'.
valueScatter :: Message a => Rank -> [a] -> Comm 'Intra -> Steps a
valueScatter root as shadow = do
  (size, rank) <- place shadow
  checkRoot "scatter" size root
  let here = Rank rank == root
  wanted <- if here then prepareAll "scatter" size as else pure []
  blocks <- newBlocks (if here then size else 0)
  liftIO (forM_ (zip [0 ..] wanted) (\(i, w) -> writeBlock (blockAt blocks i) w))
  block <- newBlocks 1
  onBytes "scatter" kScatter shadow root (if here then Just (blocks, size, blockBytes) else Nothing) (Just (block, 1, blockBytes))
  if here
    then do
      rest <- concat <$> forM [(r, w) | (r, w) <- zip [0 ..] wanted, r /= rank] (uncurry (sendRest shadow))
      mapM_ waiting rest
      judged "scatter" shadow (sequence_ wanted >> own (wanted !! rank) (as !! rank))
    else arrived "scatter" shadow block 0 (fromIntegral root) >>= judged "scatter" shadow

-- The messages of as many values as there are ranks.
prepareAll :: Message a => String -> Int -> [a] -> Steps [Wanted]
prepareAll call size as = do
  enough <- computing . trySync $ do
    given <- evaluate (length (take (size + 1) as))
    when (given /= size) (wrong InvalidCount call ("there have to be " ++ show size ++ " values, one for each rank"))
  either (pure . replicate size . Left) (const (mapM prepare as)) enough

-- | 'Heddle.MPI.Simple.allgather'.
valueAllgather :: Message a => a -> Comm 'Intra -> Steps [a]
valueAllgather a shadow = do
  (size, rank) <- place shadow
  wanted <- prepare a
  block <- newBlocks 1
  liftIO (writeBlock (bufferPtr block) wanted)
  blocks <- newBlocks size
  onBytes "allgather" kAllgather shadow 0 (Just (block, 1, blockBytes)) (Just (blocks, size, blockBytes))
  lengths <- liftIO (forM [0 .. size - 1] (blockLength blocks))
  let large = maximum lengths > blockRoom
      -- Each begins where a message may begin.
      offsets = scanl (+) 0 [(max 0 n + 15) `div` 16 * 16 | n <- lengths]
  memory <- liftIO (newBuffer (max 16 (if large then last offsets else 0)))
  when large $ do
    mine <- liftIO (either (const (newBuffer 16)) (pure . fst) wanted)
    out <- liftIO (sendSide (mine, max 0 (lengths !! rank)))
    into <- liftIO (receiveSide (memory, last offsets))
    (counts, starts, keep) <- liftIO $ withParts "allgather" size 1 into (Parts (map (max 0) lengths) (take size offsets))
    let more asked = asked {askedReceiveCounts = counts, askedReceiveOffsets = starts}
    performingIt (collective "allgather" kAllgatherv shadow (exchanging (out, max 0 (lengths !! rank)) (into, 0)) {exchangeArrays = more, exchangeKeep = keep})
  values <- forM (zip3 [0 ..] lengths offsets) $ \(r, n, offset) ->
    if r == rank
      then pure (own wanted a)
      else computing . trySync $ do
        when (n < 0) (remote "allgather" r)
        if large
          then decodeOr "allgather" (" from rank " ++ show r) memory offset n
          else fromBlock blocks r n >>= \copy -> decodeOr "allgather" (" from rank " ++ show r) copy 0 n
  judged "allgather" shadow (allOf values)

-- | 'Heddle.MPI.Simple.alltoall'.
valueAlltoall :: Message a => [a] -> Comm 'Intra -> Steps [a]
valueAlltoall as shadow = do
  (size, rank) <- place shadow
  wanted <- prepareAll "alltoall" size as
  out <- newBlocks size
  liftIO (forM_ (zip [0 ..] wanted) (\(i, w) -> writeBlock (blockAt out i) w))
  into <- newBlocks size
  onBytes "alltoall" kAlltoall shadow 0 (Just (out, size, blockBytes)) (Just (into, size, blockBytes))
  rest <- concat <$> forM [(r, w) | (r, w) <- zip [0 ..] wanted, r /= rank] (uncurry (sendRest shadow))
  values <- forM [0 .. size - 1] $ \r ->
    if r == rank then pure (own (wanted !! r) (as !! r)) else arrived "alltoall" shadow into r r
  mapM_ waiting rest
  judged "alltoall" shadow (sequence_ wanted >> allOf values)

-- Trees ----------------------------------------------------------------------

-- A value that could not be computed is sent as Nothing.
receiveMade :: Message a => String -> Comm 'Intra -> Int -> Steps (Either SomeException a)
receiveMade call shadow r = do
  packed <- arrivingPacked call shadow (Rank r) treeTag
  computing (trySync (unpack call packed >>= maybe (remote call r) pure . fst))

-- A value that cannot be encoded is treated like one that could not be computed.
giveMade :: Message a => String -> Comm 'Intra -> Int -> Either SomeException a -> Steps ()
giveMade call shadow r made = leavingPacked call shadow (Rank r) treeTag (rightToMaybe made) (Nothing :: Maybe ())

igiveMade :: Message a => String -> Comm 'Intra -> Int -> Either SomeException a -> Steps (Request ())
igiveMade call shadow r made = fst <$> ileavingPacked call shadow (Rank r) treeTag (rightToMaybe made) (Nothing :: Maybe ())

rightToMaybe :: Either e a -> Maybe a
rightToMaybe = either (const Nothing) Just

combined :: (a -> a -> a) -> Either SomeException a -> Either SomeException a -> Steps (Either SomeException a)
combined f x y = computing (trySync (f <$> either throwIO pure x <*> either throwIO pure y >>= evaluate))

-- Combine all values at rank 0.
climbed :: Message a => String -> (a -> a -> a) -> a -> Comm 'Intra -> Steps (Either SomeException a)
climbed call f a shadow = do
  (size, rank) <- place shadow
  mine <- computing (trySync (evaluate a))
  climb size rank (receiveMade call shadow) (giveMade call shadow) (combined f) mine

-- | 'Heddle.MPI.Simple.reduce'.
valueReduce :: Message a => Rank -> (a -> a -> a) -> a -> Comm 'Intra -> Steps (Maybe a)
valueReduce root f a shadow = do
  (size, rank) <- place shadow
  checkRoot "reduce" size root
  result <- climbed "reduce" f a shadow
  final <-
    if root /= 0 && rank == 0
      then result <$ giveMade "reduce" shadow (fromIntegral root) result
      else if root /= 0 && Rank rank == root then receiveMade "reduce" shadow 0 else pure result
  if Rank rank == root
    then Just <$> judged "reduce" shadow final
    else Nothing <$ judged "reduce" shadow (void final)

-- | 'Heddle.MPI.Simple.allreduce'.
valueAllreduce :: Message a => (a -> a -> a) -> a -> Comm 'Intra -> Steps a
valueAllreduce f a shadow = do
  result <- climbed "allreduce" f a shadow
  -- Rank 0 must not throw before the others know of the failure.
  valueBcast 0 (either throw id result) shadow

-- The combined value of the ranks before this one, and this rank's own value.
prefixed :: Message a => (a -> a -> a) -> a -> Comm 'Intra -> Steps (Maybe (Either SomeException a), Either SomeException a)
prefixed f a shadow = do
  (size, rank) <- place shadow
  mine <- computing (trySync (evaluate a))
  prefix <-
    prefixes
      size
      rank
      (receiveMade "scan" shadow)
      (igiveMade "scan" shadow)
      waiting
      (combined f)
      (\x p -> Just <$> maybe (pure x) (combined f x) p)
      mine
  pure (prefix, mine)

-- | 'Heddle.MPI.Simple.scan'.
valueScan :: Message a => (a -> a -> a) -> a -> Comm 'Intra -> Steps a
valueScan f a shadow = do
  (prefix, mine) <- prefixed f a shadow
  maybe (pure mine) (\p -> combined f p mine) prefix >>= judged "scan" shadow

-- | 'Heddle.MPI.Simple.exscan'.
valueExscan :: Message a => (a -> a -> a) -> a -> Comm 'Intra -> Steps (Maybe a)
valueExscan f a shadow = do
  (prefix, mine) <- prefixed f a shadow
  judged "exscan" shadow (mine >> sequence prefix)
