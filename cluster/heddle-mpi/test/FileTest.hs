{-# LANGUAGE TypeApplications #-}

-- | Files that all ranks read and write, against what plain Haskell reads.
module FileTest
  ( cases,
  )
where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar, tryPutMVar)
import Control.Monad (forM, forM_, replicateM_, void, when)
import Data.ByteString qualified as Bytes
import Data.Int (Int32)
import Data.List (isInfixOf, sort)
import Data.Vector.Storable (Vector)
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Data.Word (Word8)
import Heddle.MPI
import Heddle.MPI.Datatype
import Heddle.MPI.Fast
import Heddle.MPI.File
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Exception hiding (assert)
import Heddle.Prim.Thread (yield)
import Ranks
import System.Directory (doesFileExist, getTemporaryDirectory, removeFile)
import System.Posix.Process (getProcessID)
import System.Timeout (timeout)

cases :: [Case]
cases =
  [ anywhere "a matrix is written by rows and read by columns and by blocks" . scratch $ \path -> do
      (rank, size) <- place
      let rows = 37
          columns = 53
          value r c = fromIntegral (r * 1000 + c) :: Int32
          block (r0, nr) (c0, nc) = Vector.fromList [value r c | r <- [r0 .. r0 + nr - 1], c <- [c0 .. c0 + nc - 1]]
          view (r0, nr) (c0, nc) = newSubarrayType RowMajor [Side rows nr r0, Side columns nc c0] int
          everything = (0, rows)
          mine = share rows rank size
      withFile commWorld path (WriteOnly MustNotExist) [Hint "cb_buffer_size" "65536"] $ \file ->
        withType (view mine (0, columns)) $ \t -> do
          setView file 0 int t
          writeAtAll file 0 (block mine (0, columns))
      onlyFirst $ do
        bytes <- Bytes.readFile path
        bytes === bytesOf (block everything (0, columns))
      withFile commWorld path ReadOnly [] $ \file -> do
        let part = share columns rank size
            expected = block everything part
        withType (view everything part) (setView file 0 int)
        got <- readAtAllNew @Int32 file 0 (rows * snd part)
        assert "other columns" (got == expected)
        again <- readAllNew @Int32 file (rows * snd part)
        assert "other columns at the pointer" (again == expected)
        alone <- readAtNew @Int32 file 3 10
        assert "other columns alone" (alone == Vector.take 10 (Vector.drop 3 expected))
        let half = share rows (rank `quot` 2) ((size + 1) `quot` 2)
            quarter = if rank == size - 1 && even rank then (0, columns) else share columns (rank `mod` 2) 2
        withType (view half quarter) (setView file 0 int)
        into <- Mutable.replicate (snd half * snd quarter) 0
        n <- readAll file into
        n === snd half * snd quarter
        blocks <- Vector.freeze into
        assert "another block" (blocks == block half quarter),
    anywhere "columns are written through views, together and alone" . scratch $ \path -> do
      (rank, size) <- place
      let rows = 20
          columns = 4 * size
          values = Vector.generate (rows * 4) (\i -> let (r, c) = i `quotRem` 4 in fromIntegral (r * columns + rank * 4 + c)) :: Vector Int32
      withFile commWorld path (ReadWrite MayExist) [] $ \file -> do
        withType (newVectorType rows 4 columns int) $ \t -> withType (newResizedType 0 (4 * rows * columns) t) $ \t' ->
          setView file (4 * (10 + 4 * rank)) int t'
        writeNext file (Vector.take 8 values)
        meet
        writeAll file (Vector.drop 8 values)
        n <- tell file
        n === 4 * rows
        syncFile file
        meet
        syncFile file
        resetView file
        got <- readAtNew @Int32 file 40 (rows * columns)
        got === Vector.generate (rows * columns) fromIntegral
        hole <- readAtNew @Word8 file 0 40
        hole === Vector.replicate 40 0,
    anywhere "memory with gaps is written and read" . scratch $ \path -> do
      (rank, _) <- place
      let memory = Vector.generate 100 (\i -> fromIntegral (i + rank)) :: Vector Word8
          even' = Vector.generate 50 (\i -> fromIntegral (2 * i + rank)) :: Vector Word8
      withFile commWorld path (ReadWrite MayExist) [] $ \file ->
        withType (newVectorType 50 1 2 (elementType @Word8)) $ \t -> do
          writeAt file (50 * rank) (shaped t 1 memory)
          plain <- readAtNew @Word8 file (50 * rank) 50
          plain === even'
          into <- Mutable.replicate 100 7 :: IO (Mutable.IOVector Word8)
          n <- readAt file (50 * rank) (Shaped t 1 1 into)
          n === 50
          got <- Vector.freeze into
          got === Vector.generate 100 (\i -> if odd i then even' Vector.! (i `quot` 2) else 7)
          throws [InvalidBuffer] (readAt file 0 (Shaped t 1 2 into)),
    anywhere "each has its own pointer" . scratch $ \path -> do
      (rank, size) <- place
      let mine = ints 10 rank
      withFile commWorld path (ReadWrite MayExist) [] $ \file -> do
        setView file 0 int int
        seek file FromStart (10 * rank)
        writeNext file (Vector.take 4 mine)
        here <- tell file
        here === 10 * rank + 4
        writeNext file (Vector.drop 4 mine)
        syncFile file
        meet
        syncFile file
        seek file FromHere (-7)
        got <- readNextNew @Int32 file 3
        got === Vector.slice 3 3 mine
        into <- Mutable.replicate 4 0
        n <- readNext file into
        n === 4
        rest <- Vector.freeze into
        rest === Vector.drop 6 mine
        seek file FromEnd (-10)
        end <- tell file
        end === 10 * size - 10
        latest <- readNextNew @Int32 file 10
        latest === ints 10 (size - 1)
        throws [InvalidArgument] (seek file FromStart (-1))
        throws [InvalidArgument] (seek file FromHere (-(10 * size) - 1)),
    anywhere "all use one pointer" . scratch $ \path -> do
      (rank, size) <- place
      withFile commWorld path (ReadWrite MayExist) [] $ \file -> do
        setView file 0 int int
        forM_ [0 .. 2] $ \i -> writeShared file (ints 5 (10 * rank + i))
        meet
        at <- tellShared file
        at === 15 * size
        meet
        -- In the order of the ranks, of different lengths.
        writeOrdered file (ints (rank + 1) (100 + rank))
        syncFile file
        meet
        syncFile file
        seekShared file FromStart 0
        records <- forM [0 .. 2 :: Int] (\_ -> readSharedNew @Int32 file 5)
        meet
        ordered <- readOrderedNew @Int32 file (rank + 1)
        ordered === ints (rank + 1) (100 + rank)
        -- Nobody has read what another one has.
        everybody <- gathered (Vector.concat records)
        meet
        onlyFirst (sort (chunks 5 everybody) === sort [Vector.toList (ints 5 (10 * r + i)) | r <- [0 .. size - 1], i <- [0 .. 2]])
        seekShared file FromStart 0
        into <- Mutable.replicate 5 0
        n <- readOrdered file (into :: Mutable.IOVector Int32)
        n === 5
        meet
        seekShared file FromStart 0
        m <- readShared file (into :: Mutable.IOVector Int32)
        m === 5
        meet
        seekShared file FromEnd 0
        end <- tellShared file
        end === 15 * size + size * (size + 1) `quot` 2,
    anywhere "transfers go on beside one another" . scratch $ \path -> do
      (rank, size) <- place
      let parts = 20
          at i = 1000 * (i * size + rank)
      withFile commWorld path (ReadWrite MayExist) [] $ \file -> do
        setView file 0 int int
        written <- forM [0 .. parts - 1] (\i -> iwriteAt file (at i) (ints 1000 (parts * rank + i)))
        void (waitAll written)
        syncFile file
        meet
        syncFile file
        n <- fileSize file
        n === 4000 * parts * size
        intos <- forM [0 .. parts - 1] (\_ -> Mutable.replicate 1000 0 :: IO (Mutable.IOVector Int32))
        requests <- forM (zip [0 ..] intos) (\(i, into) -> ireadAt file (at i) into)
        counts <- waitAll requests
        counts === replicate parts 1000
        forM_ (zip [0 ..] intos) $ \(i, into) -> Vector.freeze into >>= \got -> assert "other elements" (got == ints 1000 (parts * rank + i)),
    anywhere "every form that does not wait" . scratch $ \path -> do
      (rank, size) <- place
      let forms =
            [ ("iwriteAt", \file -> iwriteAt file (8 * rank), \file -> ireadAt file (8 * rank)),
              ("iwriteAtAll", \file -> iwriteAtAll file (8 * rank), \file -> ireadAtAll file (8 * rank)),
              ("iwriteNext", iwriteNext, ireadNext),
              ("iwriteAll", iwriteAll, ireadAll)
            ]
      forM_ (zip [0 ..] forms) $ \(i, (name, write, read')) -> do
        let mine = ints 8 (100 * i + rank)
        withFile commWorld path (ReadWrite MayExist) [] $ \file -> do
          setView file 0 int int
          seek file FromStart (8 * rank)
          write file mine >>= wait
          syncFile file
          meet
          syncFile file
          seek file FromStart (8 * rank)
          into <- Mutable.replicate 8 0
          n <- read' file into >>= wait
          got <- Vector.freeze into
          (name, n, got) === (name, 8, mine)
        onlyFirst $ do
          bytes <- Bytes.readFile path
          (name, bytes) === (name, bytesOf (Vector.concat [ints 8 (100 * i + r) | r <- [0 .. size - 1]]))
        meet
      withFile commWorld path (ReadWrite MayExist) [] $ \file -> do
        setView file 0 int int
        iwriteShared file (ints 8 rank) >>= wait
        meet
        syncFile file
        meet
        seekShared file FromStart 0
        into <- Mutable.replicate 8 0 :: IO (Mutable.IOVector Int32)
        n <- ireadShared file into >>= wait
        n === 8
        got <- Vector.freeze into >>= gathered
        onlyFirst (sort (chunks 8 got) === sort [Vector.toList (ints 8 r) | r <- [0 .. size - 1]]),
    anywhere "reads are short at the end of the file" . scratch $ \path -> do
      (rank, size) <- place
      let total = 10 * size + 3
      onlyFirst (Bytes.writeFile path (bytesOf (ints total 0)))
      meet
      withFile commWorld path ReadOnly [] $ \file -> do
        setView file 0 int int
        alone <- readAtNew @Int32 file (total - 2) 5
        alone === Vector.drop (total - 2) (ints total 0)
        nothing <- readAtNew @Int32 file (total + 1000) 5
        nothing === Vector.empty
        together <- readAtAllNew @Int32 file (10 * rank + 5) 10
        together === Vector.take 10 (Vector.drop (10 * rank + 5) (ints total 0))
        seek file FromStart (total - 1)
        into <- Mutable.replicate 9 0 :: IO (Mutable.IOVector Int32)
        n <- readNext file into
        n === 1
        seek file FromStart (total - 3)
        m <- readAll file into
        m === 3
        request <- ireadAt file (total - 2) into
        k <- wait request
        k === 2
        collective <- ireadAtAll file (total - 4) into >>= wait
        collective === 4
        -- Each sees every so many-th element.
        withType (newResizedType 0 (4 * size) int) $ \t -> setView file (4 * rank) int t
        let mine = Vector.fromList [fromIntegral i | i <- [rank, rank + size .. total - 1]] :: Vector Int32
        seen <- readAtAllNew @Int32 file 0 1000
        seen === mine
        seenAlone <- readAtNew @Int32 file 3 1000
        seenAlone === Vector.drop 3 mine
        exactly <- readAtNew @Int32 file 0 (Vector.length mine)
        exactly === mine
        behind <- readAtAllNew @Int32 file (Vector.length mine) 4
        behind === Vector.empty
      -- A file that ends within an element.
      meet
      onlyFirst (Bytes.writeFile path (Bytes.replicate 10 1))
      meet
      withFile commWorld path ReadOnly [] $ \file -> do
        throws [SizeMismatch] (readAtNew @Int32 file 0 5)
        two <- readAtNew @Int32 file 0 2
        two === Vector.fromList [0x01010101, 0x01010101],
    anywhere "holes, sizes, and offsets beyond 2 GiB" . scratch $ \path -> do
      (rank, size) <- place
      let far = 3 * 1024 * 1024 * 1024
          mine = ints 4 (rank + 7)
      withFile commWorld path (ReadWrite MayExist) [] $ \file -> do
        writeAt file (far + 16 * rank) mine
        syncFile file
        meet
        syncFile file
        n <- fileSize file
        n === far + 16 * size
        got <- readAtNew @Int32 file (far + 16 * rank) 4
        got === mine
        hole <- readAtNew @Word8 file (far `quot` 2) 100
        hole === Vector.replicate 100 0
        setView file far int int
        there <- readAtAllNew @Int32 file (4 * rank) 4
        there === mine
        meet
        resizeFile file 100
        cut <- fileSize file
        cut === 100
        meet
        throws [UnsupportedOperation] (preallocateFile file 5000)
        resetView file
        preallocateFile file 5000
        grown <- fileSize file
        grown === 5000
        meet
        resizeFile file 6000
        longer <- fileSize file
        longer === 6000
        throws [InvalidArgument] (resizeFile file (-1))
        throws [InvalidArgument] (preallocateFile file (-1)),
    anywhere "files that cannot be opened so" . scratch $ \path -> do
      mpi' <- library
      let open mode = withFile commWorld path mode [] (const (pure ()))
          -- The root's error has no class on MPICH 5.0.2's other ranks, in C, too.
          exists = FileExists : [OtherError | mpi' == Mpich 5]
      throws [NoSuchFile] (open ReadOnly)
      throws [NoSuchFile] (open (WriteOnly MustExist))
      throws [NoSuchFile] (open (ReadWrite MustExist))
      meet
      open (WriteOnly MustNotExist)
      meet
      throws exists (open (WriteOnly MustNotExist))
      throws exists (open (ReadWrite MustNotExist))
      open (ReadWrite MayExist)
      open (WriteOnly MustExist)
      told <- try (withFile commWorld (path ++ "-not") ReadOnly [] (const (pure ())))
      case told of
        Left e -> do
          assert ("no name of a file in " ++ displayException e) ("-not" `isInfixOf` displayException (e :: MPIError))
          assert ("nothing of a file in " ++ displayException e) (errorClass e == NoSuchFile && not (null (errorText e)))
        Right () -> assert "it was opened" False
      throws [NoSuchFile, BadFileName, InputOutput, OtherError, AccessDenied] (withFile commWorld (path ++ "-no/such/directory") (ReadWrite MayExist) [] (const (pure ())))
      throws [BadFileName] (withFile commWorld "" ReadOnly [] (const (pure ())))
      throws [BadFileName] (withFile commWorld "a\0b" ReadOnly [] (const (pure ())))
      throws [InvalidInfo] (withFile commWorld path ReadOnly [Hint "" "1"] (const (pure ())))
      throws [InvalidInfo] (withFile commWorld path ReadOnly [Hint "a=b" "1"] (const (pure ())))
      onlyFirst $ do
        throws [NoSuchFile] (deleteFile (path ++ "-not"))
        throws [BadFileName] (deleteFile "")
        deleteFile path
        there <- doesFileExist path
        there === False,
    anywhere "what a mode does not allow" . scratch $ \path -> do
      onlyFirst (Bytes.writeFile path (Bytes.replicate 100 5))
      meet
      let four = Vector.replicate 4 1 :: Vector Word8
      into <- Mutable.replicate 4 0 :: IO (Mutable.IOVector Word8)
      withFile commWorld path ReadOnly [] $ \file -> do
        fileMode file === ReadOnly
        filePath file === path
        forM_ [writeAt file 0 four, writeAtAll file 0 four, writeNext file four, writeAll file four, writeShared file four, writeOrdered file four] (throws [ReadOnlyFile])
        forM_ [iwriteAt file 0 four, iwriteAtAll file 0 four, iwriteNext file four, iwriteAll file four, iwriteShared file four] (throws [ReadOnlyFile])
        throws [ReadOnlyFile] (resizeFile file 0)
        throws [ReadOnlyFile] (preallocateFile file 1000)
        throws [InvalidArgument] (readAt file (-1) into)
        throws [InvalidArgument] (ireadAt file (-1) into)
        throws [InvalidCount] (readAtNew @Word8 file 0 (-1))
      withFile commWorld path (WriteOnly MustExist) [] $ \file -> do
        forM_ [readAt file 0 into, readAtAll file 0 into, readNext file into, readAll file into, readShared file into, readOrdered file into] (throws [AccessDenied])
        forM_ [ireadAt file 0 into, ireadAtAll file 0 into, ireadNext file into, ireadAll file into, ireadShared file into] (throws [AccessDenied])
        throws [InvalidArgument] (writeAt file (-1) four)
        throws [InvalidArgument] (setView file (-1) int int)
        withType (newContiguousType 6 byteType) $ \six -> throws [InvalidArgument] (setView file 0 int six)
        withType (newContiguousType 0 byteType) $ \none -> throws [InvalidType] (setView file 0 none byteType)
        setView file 0 int int
        throws [InvalidArgument] (writeAt file 0 (Vector.replicate 5 1 :: Vector Word8))
      onlyFirst (Bytes.readFile path >>= (=== Bytes.replicate 100 5)),
    anywhere "options for opening" . scratch $ \path -> do
      (rank, size) <- place
      withFile commWorld path (WriteOnly MayExist) [UniqueOpen] (\file -> writeOrdered file (ints 1 1))
      withFile commWorld path (ReadWrite MayExist) [StartAtEnd] $ \file -> do
        own <- tell file
        own === 4 * size
        shared <- tellShared file
        shared === 4 * size
        setAtomicity file True
        writeAt file (4 * (size + rank)) (ints 1 1)
        meet
        got <- readAtNew @Int32 file (4 * (size + (rank + 1) `mod` size)) 1
        got === ints 1 1
        setAtomicity file False
      withFile commWorld path (ReadWrite MayExist) [DeleteOnClose, Hint "no_such_hint" "true"] (const (pure ()))
      meet
      there <- doesFileExist path
      there === False,
    anywhere "a file that is closed" . scratch $ \path -> do
      let four = Vector.replicate 4 1 :: Vector Word8
      into <- Mutable.replicate 4 0 :: IO (Mutable.IOVector Word8)
      file <- openFile commWorld path (ReadWrite MayExist) []
      closeFile file
      throws [AlreadyClosed] (closeFile file)
      throws [AlreadyClosed] (writeAt file 0 four)
      throws [AlreadyClosed] (readAt file 0 into)
      throws [AlreadyClosed] (readNext file into)
      throws [AlreadyClosed] (iwriteAt file 0 four >>= wait)
      throws [AlreadyClosed] (fileSize file)
      throws [AlreadyClosed] (resizeFile file 10)
      throws [AlreadyClosed] (preallocateFile file 10)
      throws [AlreadyClosed] (syncFile file)
      throws [AlreadyClosed] (setAtomicity file True)
      throws [AlreadyClosed] (setView file 0 int int)
      throws [AlreadyClosed] (resetView file)
      throws [AlreadyClosed] (seek file FromStart 0)
      throws [AlreadyClosed] (tell file)
      throws [AlreadyClosed] (seekShared file FromStart 0)
      throws [AlreadyClosed] (tellShared file),
    anywhere "an exception on all ranks closes the file at once" . scratch $ \path -> do
      left <- newRef Nothing
      throws [InvalidArgument] . withFile commWorld path (WriteOnly MayExist) [] $ \file -> do
        writeRef left (Just file)
        writeAt file (-1) (ints 1 1)
      -- It has not given up waiting for the others.
      readRef left >>= mapM_ (throws [AlreadyClosed] . fileSize),
    onRanks [2 .. 4] "an exception on one rank does not stop the others" . scratch $ \path -> do
      (rank, size) <- place
      opened <- Mutable.new 1
      left <- newRef Nothing
      if rank == 0
        then do
          throws [InvalidArgument] . withFile commWorld path (WriteOnly MayExist) [] $ \file -> do
            writeRef left (Just file)
            writeAt file (-1) (ints 1 1)
          -- Only now the others go on: they were not waited for any longer.
          forM_ [1 .. size - 1] (\r -> send commWorld (toRank r) 9 (ints 1 1))
        else withFile commWorld path (WriteOnly MayExist) [] $ \file -> do
          void (recv commWorld 0 9 opened)
          one <- Vector.freeze (opened :: Mutable.IOVector Int32)
          one === ints 1 1
          -- The first has gone, but this is not collective.
          writeAt file (4 * rank) one
      readRef left >>= mapM_ untilClosed,
    onRanks [2, 3] "closeFileInterruptedWhileATransferIsOutstanding" . scratch $ \path -> do
      (rank, size) <- place
      told <- Mutable.new 1
      file <- openFile commWorld path (ReadWrite MayExist) []
      if rank == 0
        then do
          -- It ends when the others take part, and closing waits for it.
          written <- iwriteAtAll file 0 (ints 1 0)
          -- Masked, so that it is interrupted where it waits, not before it has begun.
          mask_ (timeout 20000 (closeFile file)) >>= (=== Nothing)
          forM_ [1 .. size - 1] (\r -> send commWorld (toRank r) 9 (ints 1 1))
          wait written
          untilClosed file
        else do
          void (recv commWorld 0 9 (told :: Mutable.IOVector Int32))
          writeAtAll file (4 * rank) (ints 1 rank)
          -- Without the first rank, this never ends.
          closeFile file,
    onRanks [1, 2] "closedBesideACallOfAnotherThread" . scratch $ \path ->
      forM_ [1 .. 100 :: Int] $ \round' -> do
        rank <- commRank commWorld
        file <- openFile commSelf (path ++ "." ++ show rank) (ReadWrite MayExist) [DeleteOnClose]
        users <- forM [fileSize file, tell file, fileSize file] $ \use -> do
          begun <- newEmptyMVar
          ended <- newEmptyMVar
          let go = try use >>= either pure (const (tryPutMVar begun () >> go))
          _ <- forkIO (go >>= putMVar ended)
          pure (begun, ended)
        forM_ users (takeMVar . fst)
        replicateM_ (round' `rem` 50) yield
        closeFile file
        forM_ users $ \(_, ended) -> takeMVar ended >>= (=== AlreadyClosed) . errorClass,
    onRanks [1, 2] "transferOutstandingWhenItsFileWasClosedAfterAnException" . scratch $ \path -> do
      rank <- commRank commWorld
      let own = path ++ "." ++ show rank
          content = ints 500000 (fromIntegral rank)
      begun <- newRef Nothing
      throws [InvalidArgument] . withFile commSelf own (ReadWrite MayExist) [] $ \file -> do
        iwriteAt file 0 content >>= writeRef begun . Just
        writeAt file (-1) content
      readRef begun >>= mapM_ wait
      got <- withFile commSelf own ReadOnly [] $ \file -> readAtNew file 0 500000
      deleteFile own
      assert "all of it was written" (got == content),
    anywhere "a file of one process only" $ do
      (rank, _) <- place
      scratch $ \path -> do
        let own = path ++ "." ++ show rank
        withFile commSelf own (ReadWrite MustNotExist) [DeleteOnClose] $ \file -> do
          writeAtAll file 0 (ints 100 rank)
          got <- readAtAllNew @Int32 file 0 100
          got === ints 100 rank
        there <- doesFileExist own
        there === False
  ]

int :: Datatype
int = elementType @Int32

-- | Numbers that are another's nowhere near.
ints :: Int -> Int -> Vector Int32
ints n seed = Vector.generate n (\i -> fromIntegral (seed * 100000 + i))

bytesOf :: Vector Int32 -> Bytes.ByteString
bytesOf v = Bytes.pack (Vector.toList (Vector.unsafeCast v :: Vector Word8))

chunks :: Int -> Vector Int32 -> [[Int32]]
chunks n v = if Vector.null v then [] else Vector.toList (Vector.take n v) : chunks n (Vector.drop n v)

-- | The part of so many that a rank has: its beginning and its length.
share :: Int -> Int -> Int -> (Int, Int)
share n rank size = (from, (n * (rank + 1)) `quot` size - from)
  where
    from = (n * rank) `quot` size

place :: IO (Int, Int)
place = (,) <$> (fromIntegral <$> commRank commWorld) <*> commSize commWorld

onlyFirst :: IO () -> IO ()
onlyFirst action = place >>= \(rank, _) -> when (rank == 0) action

-- | A thread of the library closes it: until it has, there is a file.
untilClosed :: File -> IO ()
untilClosed file =
  try (fileSize file) >>= \case
    Left e -> errorClass e === AlreadyClosed
    Right _ -> yield >> untilClosed file

-- | Wait until all ranks are here.
meet :: IO ()
meet = do
  (rank, size) <- place
  sent <- forM [r | r <- [0 .. size - 1], r /= rank] (\r -> isend commWorld (toRank r) 11 (Vector.empty :: Vector Word8))
  forM_ [r | r <- [0 .. size - 1], r /= rank] (\r -> recvNew @Word8 commWorld (toRank r) 11 0)
  void (waitAll sent)

-- | The values that all have, one behind the other, for the first.
gathered :: Vector Int32 -> IO (Vector Int32)
gathered mine = do
  (rank, size) <- place
  if rank == 0
    then Vector.concat . (mine :) <$> forM [1 .. size - 1] (\r -> fst <$> recvNew commWorld (toRank r) 12 100000)
    else mine <$ send commWorld 0 12 mine

-- | With the name of a file that does not exist, the same on all ranks, and is removed.
scratch :: (FilePath -> IO ()) -> IO ()
scratch body = do
  (rank, size) <- place
  name <-
    if rank == 0
      then do
        directory <- getTemporaryDirectory
        pid <- getProcessID
        let path = directory ++ "/heddle-mpi-file-test-" ++ show pid
        remove path
        forM_ [1 .. size - 1] (\r -> send commWorld (toRank r) 13 (Vector.fromList path))
        pure path
      else Vector.toList . fst <$> recvNew @Char commWorld 0 13 4096
  body name `onException` remove name
  meet
  onlyFirst (remove name)
  meet
  where
    remove path = doesFileExist path >>= \there -> when there (removeFile path)
