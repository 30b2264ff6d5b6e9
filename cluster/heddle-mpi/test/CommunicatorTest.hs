{-# LANGUAGE DataKinds #-}

-- | Communicators, groups, intercommunicators.
module CommunicatorTest
  ( cases,
  )
where

import Control.Concurrent.MVar
import Control.Monad (forM_, unless, void, when)
import Data.List (intersect, (\\))
import Data.List qualified as List
import Data.Maybe (isJust, isNothing)
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Heddle.MPI
import Heddle.MPI.Communicator
import Heddle.MPI.Fast
import Heddle.Prim.Exception hiding (assert)
import Heddle.Prim.Thread (fork)
import Ranks

cases :: [Case]
cases =
  [ anywhere "messages in a duplicate are not seen in the original" $
      withDup commWorld $ \dup -> do
        (rank, size) <- place commWorld
        place dup >>= (=== (rank, size))
        let next = toRank ((rank + 1) `mod` size)
            previous = toRank ((rank - 1) `mod` size)
        first <- isend dup next 5 (one 1)
        second <- isend commWorld next 5 (one 2)
        -- The first message, in the duplicate, is not taken for the second one.
        (recvValue commWorld previous 5 :: IO (Int, Status)) >>= (=== 2) . fst
        iprobe commWorld previous 5 >>= (=== Nothing) . fmap statusTag
        (recvValue dup previous 5 :: IO (Int, Status)) >>= (=== 1) . fst
        void (waitAll [first, second]),
    anywhere "a split by colour and key" $ do
      (rank, size) <- place commWorld
      withSplit commWorld (Just (rank `mod` 2)) (negate rank) $ \case
        Nothing -> assert "there is a communicator" False
        Just half -> do
          let mine = reverse [r | r <- [0 .. size - 1], r `mod` 2 == rank `mod` 2]
          (r, n) <- place half
          n === length mine
          mine !! r === rank
          -- Ranks refer to the new communicator.
          ring half rank >>= (=== mine !! ((r - 1) `mod` n)),
    anywhere "a split without a colour" $ do
      (rank, size) <- place commWorld
      withSplit commWorld (if rank == 0 then Nothing else Just 7) 0 $ \comm -> do
        isNothing comm === (rank == 0)
        forM_ comm $ \c -> place c >>= (=== (rank - 1, size - 1)),
    anywhere "those who share memory" $ do
      (rank, size) <- place commWorld
      mpi' <- library
      withSplitShared commWorld (negate rank) $ \shared -> do
        -- All of them run on this machine, but MPICH 5.0.2 has them each alone, in C, too.
        mine <- place shared
        unless (mpi' == Mpich 5 && mine == (0, 1)) (mine === (size - 1 - rank, size)),
    anywhere "a communicator of a group" $ do
      (rank, size) <- place commWorld
      withGroup (commGroup commWorld) $ \world ->
        withGroup (include world (map toRank [size - 1, size - 3 .. 0])) $ \group ->
          withComm commWorld group $ \comm -> do
            mine <- groupRank group
            isJust comm === isJust mine
            forM_ comm $ \c -> do
              r <- commRank c
              Just r === mine
              n <- commSize c
              groupSize group >>= (=== n)
              ring c rank >>= (=== before rank [size - 1, size - 3 .. 0]),
    anywhere "a communicator of nobody" $
      withComm commWorld emptyGroup $ \comm -> isNothing comm === True,
    anywhere "communicators compare" $
      withDup commWorld $ \dup -> do
        (rank, size) <- place commWorld
        compareComms commWorld commWorld >>= (=== Identical)
        compareComms dup commWorld >>= (=== Congruent)
        compareComms commSelf commWorld >>= (=== (if size == 1 then Congruent else Unequal))
        withSplit commWorld (Just 0) (negate rank) $ \turned ->
          forM_ turned $ \t -> compareComms t dup >>= (=== (if size == 1 then Congruent else Similar)),
    anywhere "names" $ do
      commName commWorld >>= (=== "MPI_COMM_WORLD")
      withDup commWorld $ \dup -> do
        let long = replicate longestName 'x'
        forM_ ["heat", "\1075\1088\1072\1085\1080\1094\1072 \955", long, ""] $ \name -> do
          setCommName dup name
          commName dup >>= (=== name)
        throws [InvalidArgument] (setCommName dup ('x' : long))
        throws [InvalidArgument] (setCommName dup (replicate 32 '\955'))
        throws [InvalidArgument] (setCommName dup "a\0b")
        commName dup >>= (=== ""),
    anywhere "groups as lists" $ do
      (_, size) <- place commWorld
      withGroup (commGroup commWorld) $ \world -> do
        let subsets = List.subsequences [0 .. size - 1]
            checkAs group expected = members world group >>= (=== expected)
        groupSize world >>= (=== size)
        checkAs world [0 .. size - 1]
        forM_ subsets $ \as -> withGroup (include world (map toRank (reverse as))) $ \a -> do
          checkAs a (reverse as)
          withGroup (exclude world (map toRank as)) (`checkAs` ([0 .. size - 1] \\ as))
          forM_ subsets $ \bs -> withGroup (include world (map toRank bs)) $ \b -> do
            withGroup (a `union` b) (`checkAs` (reverse as `List.union` bs))
            withGroup (intersection a b) (`checkAs` (reverse as `intersect` bs))
            withGroup (difference a b) (`checkAs` (reverse as \\ bs))
            how <- compareGroups a b
            how
              === ( if reverse as == bs
                      then Identical
                      else if as == bs then Similar else Unequal
                  ),
    anywhere "ranks in groups" $ do
      (rank, size) <- place commWorld
      withGroup (commGroup commWorld) $ \world -> do
        groupRank world >>= (=== Just (toRank rank))
        withGroup (exclude world [toRank rank]) $ \others -> do
          groupRank others >>= (=== Nothing)
          groupSize others >>= (=== size - 1)
          translateRanks world (map toRank [0 .. size - 1] ++ [noRank]) others
            >>= (=== [if r == rank then Nothing else Just (toRank (if r < rank then r else r - 1)) | r <- [0 .. size - 1]] ++ [Just noRank])
          translateRanks others (map toRank [0 .. size - 2]) world
            >>= (=== [Just (toRank r) | r <- [0 .. size - 1], r /= rank])
        translateRanks world [] emptyGroup >>= (=== [])
        translateRanks world [0, noRank] emptyGroup >>= (=== [Nothing, Just noRank])
        groupRank emptyGroup >>= (=== Nothing)
        groupSize emptyGroup >>= (=== 0)
        closeGroup emptyGroup,
    anywhere "wrong groups" $ do
      (_, size) <- place commWorld
      withGroup (commGroup commWorld) $ \world -> do
        forM_ [include, exclude] $ \pick -> do
          throws [InvalidRank] (pick world [toRank size])
          throws [InvalidRank] (pick world [-1])
          throws [InvalidRank] (pick world [noRank])
          throws [InvalidRank] (pick world [0, 0])
          throws [InvalidRank] (pick world [2 ^ (32 :: Int)])
        throws [InvalidRank] (translateRanks world [toRank size] world)
        throws [InvalidRank] (translateRanks emptyGroup [0] world)
      gone <- commGroup commWorld
      closeGroup gone
      throws [AlreadyClosed] (groupSize gone)
      throws [AlreadyClosed] (include gone [])
      throws [AlreadyClosed] (emptyGroup `union` gone)
      throws [AlreadyClosed] (closeGroup gone),
    onRanks [2 .. 4] "an intercommunicator between two halves" $
      halves $ \own low inter -> do
        (rank, size) <- place commWorld
        (r, n) <- place own
        place inter >>= (=== (r, n))
        others <- remoteSize inter
        others === size - n
        withGroup (commGroup inter) (\g -> withGroup (commGroup own) (compareGroups g) >>= (=== Identical))
        withGroup (remoteGroup inter) $ \g -> do
          groupSize g >>= (=== others)
          withGroup (commGroup commWorld) (`members` g) >>= (=== (if low then [n .. size - 1] else [0 .. others - 1]))
        compareComms inter own >>= (=== Unequal)
        -- Each rank sends to each rank on the other side.
        sent <- mapM (\to -> isend inter (toRank to) 3 (one rank)) [0 .. others - 1]
        got <- mapM (\from -> fst <$> recvValue inter (toRank from) 3) [0 .. others - 1]
        got === (if low then [n .. size - 1] else [0 .. others - 1])
        void (waitAll sent),
    onRanks [2 .. 4] "the two halves merged" $
      halves $ \_ low inter -> do
        (rank, size) <- place commWorld
        withMerged inter (not low) $ \both -> do
          place both >>= (=== (rank, size))
          ring both rank >>= (=== (rank - 1) `mod` size)
        withMerged inter low $ \both -> do
          let lows = size `div` 2
          place both >>= (=== (if low then rank + size - lows else rank - lows, size)),
    onRanks [2 .. 4] "an intercommunicator duplicated" $
      halves $ \own _ inter -> withDup inter $ \dup -> do
        others <- remoteSize dup
        remoteSize inter >>= (=== others)
        (r, _) <- place own
        compareComms dup inter >>= (=== Congruent)
        when (r == 0) $ do
          -- Two leaders.
          sent <- isend dup 0 1 (one 1)
          also <- isend inter 0 1 (one 2)
          (recvValue inter 0 1 :: IO (Int, Status)) >>= (=== 2) . fst
          (recvValue dup 0 1 :: IO (Int, Status)) >>= (=== 1) . fst
          void (waitAll [sent, also]),
    onRanks [4] "an intercommunicator split" $
      halves $ \_ _ inter -> do
        r <- commRank inter
        withSplit inter (Just (fromIntegral r)) 0 $ \case
          Nothing -> assert "there is a communicator" False
          Just pair -> do
            place pair >>= (=== (0, 1))
            remoteSize pair >>= (=== 1)
            rank <- commRank commWorld
            sent <- isend pair 0 1 (one (fromIntegral rank))
            (recvValue pair 0 1 :: IO (Int, Status)) >>= (=== (fromIntegral rank + 2) `mod` 4) . fst
            void (wait sent),
    onRanks [2 .. 4] "wrong intercommunicators" $ do
      (_, size) <- place commWorld
      greatest <- fromTag <$> tagUpperBound
      throws [InvalidRank] (newInter commWorld (toRank size) commWorld 0 1)
      throws [InvalidRank] (newInter commWorld (-1) commWorld 0 1)
      throws [InvalidTag] (newInter commWorld 0 commWorld 0 (-1))
      when (greatest < (2147483647 :: Int)) $ throws [InvalidTag] (newInter commWorld 0 commWorld 0 (toTag (greatest + 1)))
      throws [InvalidRank] (newInter commSelf 0 commWorld (toRank size) 1)
      rank <- commRank commWorld
      throws [InvalidRank] (newInter commSelf 0 commWorld rank 1),
    onRanks [1] "no intercommunicator without another process" $
      throws [InvalidRank] (newInter commSelf 0 commWorld 0 1),
    anywhere "wrong splits" $ do
      throws [InvalidArgument] (newSplit commWorld (Just (-1)) 0)
      throws [InvalidArgument] (newSplit commWorld (Just 2147483648) 0)
      throws [InvalidArgument] (newSplit commWorld (Just 0) 2147483648)
      throws [InvalidArgument] (newSplitShared commWorld (-2147483649)),
    anywhere "what is closed stays closed" $ do
      dup <- newDup commWorld
      size <- commSize commWorld
      commSize dup >>= (=== size)
      closeComm dup
      throws [AlreadyClosed] (closeComm dup)
      throws [AlreadyClosed] (commSize dup)
      throws [AlreadyClosed] (newDup dup)
      throws [AlreadyClosed] (newSplit dup (Just 0) 0)
      throws [AlreadyClosed] (newSplitShared dup 0)
      throws [AlreadyClosed] (newComm dup emptyGroup)
      throws [AlreadyClosed] (commName dup)
      throws [AlreadyClosed] (setCommName dup "late")
      throws [AlreadyClosed] (commGroup dup)
      throws [AlreadyClosed] (compareComms dup commWorld)
      throws [AlreadyClosed] (send dup 0 1 (one 1))
      -- A new communicator is not taken for the closed one.
      withDup commWorld $ \_ -> throws [AlreadyClosed] (commName dup),
    anywhere "what is always there stays" $ do
      throws [InvalidCommunicator] (closeComm commWorld)
      throws [InvalidCommunicator] (closeComm commSelf)
      place commSelf >>= (=== (0, 1)),
    anywhere "an exception closes" $ do
      kept <- newEmptyMVar
      result <- try (withDup commWorld (\dup -> putMVar kept dup >> ioError (userError "on purpose")))
      either (const True) (const False) (result :: Either IOException ()) === True
      dup <- takeMVar kept
      throws [AlreadyClosed] (commName dup),
    onRanks [2 .. 4] "others go on while one waits for a split" $ do
      (rank, size) <- place commWorld
      -- Rank 0 takes part only after an answer from another thread of each of the other ranks,
      -- which are waiting for it.
      withDup commWorld $ \aside -> do
        answered <- newEmptyMVar
        unless (rank == 0) $
          void . fork "test/answer" $ do
            (n, _) <- recvValue aside 0 1
            sendValue aside 0 2 (n + rank :: Int)
            putMVar answered ()
        when (rank == 0) $
          forM_ [1 .. size - 1] $ \r -> do
            sendValue aside (toRank r) 1 (100 :: Int)
            recvValue aside (toRank r) 2 >>= (=== 100 + r) . fst
        withSplit commWorld (Just 0) 0 (maybe (pure ()) (\c -> place c >>= (=== (rank, size))))
        unless (rank == 0) (takeMVar answered),
    anywhere "many at once" $ do
      size <- commSize commWorld
      comms <- mapM (const (newDup commWorld)) [1 .. 50 :: Int]
      sizes <- mapM commSize comms
      sizes === replicate 50 size
      length (List.nub comms) === 50
      mapM_ closeComm comms
  ]

place :: Comm kind -> IO (Int, Int)
place comm = (,) <$> (fromIntegral <$> commRank comm) <*> commSize comm

one :: Int -> Vector.Vector Int
one = Vector.singleton

-- The value that the previous process sends.
ring :: Comm 'Intra -> Int -> IO Int
ring comm mine = do
  (rank, size) <- place comm
  theirs <- Mutable.new 1
  _ <- sendrecv comm (toRank ((rank + 1) `mod` size)) 9 (one mine) (toRank ((rank - 1) `mod` size)) 9 theirs
  Mutable.read theirs 0

-- The successor of a rank in the ring of a list.
before :: Int -> [Int] -> Int
before rank list = head [a | (a, b) <- zip (last list : list) list, b == rank]

-- The ranks in the world, in order.
members :: Group -> Group -> IO [Int]
members world group = do
  n <- groupSize group
  there <- translateRanks group (map toRank [0 .. n - 1]) world
  pure (map (maybe (-1) fromIntegral) there)

-- The world in two halves: the own half, whether it is the lower one, and the intercommunicator.
halves :: (Comm 'Intra -> Bool -> Comm 'Inter -> IO a) -> IO a
halves use = do
  (rank, size) <- place commWorld
  let low = rank < size `div` 2
      other = if low then size `div` 2 else 0
  withSplit commWorld (Just (fromEnum low)) 0 $ \case
    Nothing -> ioError (userError "no half")
    Just own -> withInter own 0 commWorld (toRank other) 11 (use own low)
