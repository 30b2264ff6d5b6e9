-- | Collectives on memory, against what one process computes.
module CollectiveTest
  ( cases,
  )
where

import Control.Monad (forM_)
import Data.Bits (shiftL, shiftR, (.&.), (.|.))
import Data.Int (Int32, Int64)
import Data.Maybe (fromMaybe)
import Data.Primitive.PrimArray
import Data.Vector.Storable (Vector)
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Data.Word (Word16)
import Foreign.Storable (Storable (..))
import Heddle.MPI
import Heddle.MPI.Collective
import Heddle.MPI.Fast (Element)
import Heddle.Prim.Exception (trySync)
import Ranks

cases :: [Case]
cases =
  [ anywhere "barrier, waited for and as a request" $ do
      barrier commWorld
      ibarrier commWorld >>= wait,
    anywhere "bcast from every root" . eachRoot $ \root -> do
      r <- commRank commWorld
      v <- Vector.thaw (if r == root then Vector.generate 100 (+ fromIntegral root) else Vector.replicate 100 0) :: IO (Mutable.IOVector Int)
      bcast commWorld root v
      got <- Vector.freeze v
      got === Vector.generate 100 (+ fromIntegral root)
      x <- bcastValue commWorld root (fromIntegral r * 1.5 :: Double)
      x === fromIntegral root * 1.5,
    anywhere "bcast of more than is sent at once" $ do
      r <- commRank commWorld
      v <- Vector.thaw (if r == 0 then big else Vector.map (const 0) big)
      ibcast commWorld 0 v >>= wait
      got <- Vector.freeze v
      assert "it arrived" (got == big),
    anywhere "gather, into memory, new, and a value" . eachRoot $ \root -> do
      (r, size) <- place
      let mine = block r
      got <- gatherNew commWorld root mine
      got === (if toRank r == root then Just (Vector.concat (map block [0 .. size - 1])) else Nothing)
      values <- gatherValue commWorld root (fromIntegral r :: Word16)
      values === (if toRank r == root then Just (Vector.generate size fromIntegral) else Nothing),
    anywhere "gatherv and scatterv of parts of all sizes, with gaps" . eachRoot $ \root -> do
      (r, size) <- place
      let counts = [0 .. size - 1]
          parts = Parts counts (map (* 10) counts)
          whole = Vector.generate 50 fromIntegral :: Vector Int32
          atRoot a = if toRank r == root then Just a else Nothing
          scatters = [scatterv commWorld root, \from into -> iscatterv commWorld root from into >>= wait]
          gathers = [gatherv commWorld root, \from into -> igatherv commWorld root from into >>= wait]
      forM_ (zip scatters gathers) $ \(scattering, gathering) -> do
        into <- Mutable.replicate r 0
        scattering (atRoot (whole, parts)) into
        mine <- Vector.freeze into
        mine === Vector.slice (10 * r) r whole
        back <- Mutable.replicate 50 (-1) :: IO (Mutable.IOVector Int32)
        gathering mine (atRoot (back, parts))
        got <- Vector.freeze back
        got
          === Vector.generate
            50
            (\i -> if toRank r == root && i `mod` 10 < i `div` 10 && i `div` 10 < size then fromIntegral i else -1),
    -- MPI knows none of these types and gets their bytes.
    anywhere "partsOfATypeWithoutOneOfMPIsWereCountedInBytes" $ do
      partsOf (\i -> Triple (fromIntegral i) (i * 3) (even i))
      partsOf even
      partsOf (\i -> fromIntegral i / 2 :: Double)
      unpinnedParts,
    anywhere "alltoallDividedBytesAndNotElements" $ do
      (_, size) <- place
      let none = Triple (-1) 0 False
      into <- Mutable.replicate (size + 1) none
      -- 24 bytes times 1 to 4, and one element too many to be divided.
      if size == 1
        then alltoall commWorld (Vector.replicate 2 (Triple 5 6 True)) into >> Vector.freeze into >>= (=== Vector.replicate 2 (Triple 5 6 True))
        else do
          throws [InvalidCount] (alltoall commWorld (Vector.replicate (size + 1) none) into)
          throws [InvalidCount] (alltoall commWorld (Vector.replicate (size - 1) none) into)
      barrier commWorld,
    anywhere "scatter" . eachRoot $ \root -> do
      (r, size) <- place
      into <- Mutable.new 5
      scatter commWorld root (if toRank r == root then Just (Vector.concat (map block [0 .. size - 1])) else Nothing) into
      got <- Vector.freeze into
      got === block r,
    anywhere "allgather, allgatherv, a value of each" $ do
      (r, size) <- place
      into <- Mutable.new (5 * size)
      allgather commWorld (block r) into
      got <- Vector.freeze into
      got === Vector.concat (map block [0 .. size - 1])
      let counts = [1 .. size]
          mine = Vector.replicate (r + 1) r
      forM_ [allgatherv commWorld mine, \to parts -> iallgatherv commWorld mine to parts >>= wait] $ \gathering -> do
        into' <- Mutable.new (sum counts)
        gathering into' (consecutive counts)
        got' <- Vector.freeze into'
        got' === Vector.concat [Vector.replicate (i + 1) i | i <- [0 .. size - 1]]
      values <- allgatherValue commWorld (fromIntegral r :: Float)
      values === Vector.generate size fromIntegral,
    anywhere "alltoall and alltoallv transpose" $ do
      (r, size) <- place
      into <- Mutable.new size
      alltoall commWorld (Vector.generate size (\i -> 100 * r + i)) into
      got <- Vector.freeze into
      got === Vector.generate size (\i -> 100 * i + r)
      let sends = [i + r | i <- [0 .. size - 1]]
          mine = Vector.concat [Vector.replicate n (100 * r + i) | (i, n) <- zip [0 ..] sends]
          parts = consecutive sends
      forM_ [\to -> alltoallv commWorld mine parts to parts, \to -> ialltoallv commWorld mine parts to parts >>= wait] $ \transposing -> do
        into' <- Mutable.new (sum sends)
        transposing into'
        got' <- Vector.freeze into'
        got' === Vector.concat [Vector.replicate (i + r) (100 * i + r) | i <- [0 .. size - 1]],
    anywhere "reductions by MPI and by functions agree with folds" $ do
      (_, size) <- place
      forM_ [sumOf, productOf, minimumOf, maximumOf, bitwiseXor, bitwiseAnd, bitwiseOr] $ \op -> reductions op (block64 size)
      reductions affine (block64 size)
      reductions (operator const) (block64 size)
      reductions (operator (\_ y -> y)) (block64 size),
    anywhere "a reduction with a function gives all ranks the same bits" $ do
      r <- commRank commWorld
      let mine = 1 / (fromIntegral r + 3) :: Double
      x <- allreduceValue commWorld (operator (+)) mine
      all' <- allgatherValue commWorld x
      assert "the same everywhere" (Vector.all (== x) all'),
    anywhere "a function that throws on one rank is an exception on all" $ do
      (r, size) <- place
      let bad = operator (\x y -> if x == 1 && size > 1 then error "no" else x + y) :: Operator Int
      outcome <- trySync (allreduceValue commWorld bad (if r == 0 then 1 else 2))
      either (const True) (const False) outcome === (size > 1)
      outcome' <- trySync (reduceValue commWorld (toRank (size - 1)) bad (if r == 0 then 1 else 2))
      either (const True) (const False) outcome' === (size > 1)
      barrier commWorld,
    anywhere "characters have no operators of MPI's" $ do
      (r, size) <- place
      x <- allreduceValue commWorld maximumOf (toEnum (97 + r) :: Char)
      x === toEnum (96 + size),
    anywhere "wrong sizes are found before MPI is called" $ do
      (_, size) <- place
      into <- Mutable.new 1 :: IO (Mutable.IOVector Int)
      throws [InvalidCount] (allgather commWorld (Vector.replicate 2 (0 :: Int)) into)
      throws [InvalidCount] (allreduce commWorld sumOf (Vector.replicate 2 0) into)
      throws [InvalidCount] (allreduce commWorld (operator (+)) (Vector.replicate 2 0) into)
      throws [InvalidCount] (alltoall commWorld (Vector.replicate (2 * size) (0 :: Int)) into)
      throws [InvalidCount] (allgatherv commWorld (Vector.singleton (0 :: Int)) into (Parts [1] [1]))
      throws [InvalidBuffer] (commRank commWorld >>= \r -> gather commWorld r (Vector.singleton (0 :: Int)) (Nothing :: Maybe (Mutable.IOVector Int)))
      wrongType <- Mutable.new size :: IO (Mutable.IOVector Double)
      throws [InvalidType] (allgather commWorld (Vector.singleton (0 :: Int)) wrongType)
      throws [InvalidRoot] (reduce commWorld 9 (operator (+)) (Vector.singleton 0) (Just into))
      barrier commWorld,
    anywhere "many requests at once, waited for in another order" $ do
      (r, size) <- place
      vs <- mapM (\i -> Vector.thaw (Vector.replicate 10 (r + i))) [0 .. 9]
      requests <- mapM (ibcast commWorld 0) vs
      _ <- waitAll (reverse requests)
      got <- mapM Vector.freeze vs
      got === [Vector.replicate 10 i | i <- [0 .. 9]]
      assert "the job has ranks" (size > 0)
  ]

-- Every collective that reduces, with this operator, against folds over the ranks' vectors.
reductions :: Operator Int64 -> (Int -> Vector Int64) -> IO ()
reductions op vectors = do
  (r, size) <- place
  let f = Vector.zipWith (operatorFunction op)
      all' = map vectors [0 .. size - 1]
      total = foldl1 f all'
      n = Vector.length total
      fresh = Mutable.replicate n (-7)
  into <- fresh
  allreduce commWorld op (vectors r) into
  Vector.freeze into >>= (=== total)
  again <- fresh
  iallreduce commWorld op (vectors r) again >>= wait
  Vector.freeze again >>= (=== total)
  eachRoot $ \root -> forM_ [reduce commWorld root op (vectors r), \to -> ireduce commWorld root op (vectors r) to >>= wait] $ \reducing -> do
    at <- fresh
    reducing (if toRank r == root then Just at else Nothing)
    Vector.freeze at >>= (=== (if toRank r == root then total else Vector.replicate n (-7)))
  one <- reduceValue commWorld 0 op (Vector.head (vectors r))
  one === (if r == 0 then Just (Vector.head total) else Nothing)
  forM_ [scan commWorld op (vectors r), \to -> iscan commWorld op (vectors r) to >>= wait] $ \scanning -> do
    upTo <- fresh
    scanning upTo
    Vector.freeze upTo >>= (=== foldl1 f (take (r + 1) all'))
  scanValue commWorld op (Vector.head (vectors r)) >>= (=== Vector.head (foldl1 f (take (r + 1) all')))
  forM_ [exscan commWorld op (vectors r), \to -> iexscan commWorld op (vectors r) to >>= wait] $ \scanning -> do
    before <- fresh
    scanning before
    Vector.freeze before >>= (=== if r == 0 then Vector.replicate n (-7) else foldl1 f (take r all'))
  let counts = [if i == 0 then n - size + 1 else 1 | i <- [0 .. size - 1]]
  forM_ [reduceScatter commWorld op (vectors r) counts, \to -> ireduceScatter commWorld op (vectors r) counts to >>= wait] $ \scattering -> do
    part <- Mutable.replicate (counts !! r) 0
    scattering part
    Vector.freeze part >>= (=== Vector.slice (sum (take r counts)) (counts !! r) total)

-- The composition of functions x -> ax + b modulo 2^16: associative, not commutative.
affine :: Operator Int64
affine = operator (\f g -> ((f `shiftR` 16) * (g `shiftR` 16) .&. 65535) `shiftL` 16 .|. ((f .&. 65535) * (g `shiftR` 16) + g) .&. 65535)

block :: Int -> Vector Int
block r = Vector.generate 5 (\i -> 1000 * r + i)

block64 :: Int -> Int -> Vector Int64
block64 size r = Vector.generate 7 (\i -> fromIntegral ((r + 2) * (i + 1) * 37 `mod` (size + 60) + 1))

big :: Vector Double
big = Vector.generate 500000 fromIntegral

eachRoot :: (Rank -> IO ()) -> IO ()
eachRoot body = commSize commWorld >>= \size -> mapM_ (body . toRank) [0 .. size - 1]

place :: IO (Int, Int)
place = (,) <$> (fromIntegral <$> commRank commWorld) <*> commSize commWorld

-- | An element of 24 bytes, with padding.
data Triple = Triple !Double !Int !Bool
  deriving stock (Eq, Show)

instance Storable Triple where
  sizeOf _ = 24
  alignment _ = 8
  peek p = Triple <$> peekByteOff p 0 <*> peekByteOff p 8 <*> peekByteOff p 16
  poke p (Triple a b c) = pokeByteOff p 0 a >> pokeByteOff p 8 b >> pokeByteOff p 16 c

instance Element Triple

-- Each of the four, with parts of different lengths and gaps between them, backwards, and refused where they do not fit.
partsOf :: forall a. (Element a, Eq a, Show a) => (Int -> a) -> IO ()
partsOf f = do
  (r, size) <- place
  let counts = [1 .. size]
      parts = Parts counts [7 * (size - 1 - i) | i <- [0 .. size - 1]]
      room = 7 * size
      whole = Vector.generate room f
      part i = Vector.slice (7 * (size - 1 - i)) (i + 1) whole
      expected rows = Vector.generate room (\i -> let (q, k) = i `quotRem` 7 in fromMaybe (f 99) (lookup (size - 1 - q) rows >>= (Vector.!? k)))
      blank = Mutable.replicate room (f 99) :: IO (Mutable.IOVector a)
      sends = Parts (replicate size 2) [2 * i | i <- [0 .. size - 1]]
      receives = Parts (replicate size 2) [3 * i | i <- [0 .. size - 1]]
  mine <- Mutable.replicate (r + 1) (f 99)
  scatterv commWorld 0 (if r == 0 then Just (whole, parts) else Nothing) mine
  got <- Vector.freeze mine
  got === part r
  back <- blank
  gatherv commWorld 0 got (if r == 0 then Just (back, parts) else Nothing)
  gathered <- Vector.freeze back
  gathered === (if r == 0 then expected [(i, part i) | i <- [0 .. size - 1]] else Vector.replicate room (f 99))
  everywhere <- blank
  allgatherv commWorld got everywhere parts
  all' <- Vector.freeze everywhere
  all' === expected [(i, part i) | i <- [0 .. size - 1]]
  crossed <- blank
  alltoallv commWorld (Vector.generate (2 * size) (\i -> f (100 * r + i))) sends crossed receives
  transposed <- Vector.freeze crossed
  transposed
    === Vector.generate room (\i -> let (q, k) = i `quotRem` 3 in if q < size && k < 2 then f (100 * q + 2 * r + k) else f 99)
  -- One element beyond the end, which as bytes would be inside of most of these.
  throws [InvalidCount] (allgatherv commWorld got everywhere (Parts counts (replicate size room)))
  throws [InvalidCount] (allgatherv commWorld got everywhere (Parts (replicate size (room + 1)) (replicate size 0)))
  barrier commWorld

-- Arrays that MPI cannot use in place.
unpinnedParts :: IO ()
unpinnedParts = do
  (r, size) <- place
  into <- newPrimArray (2 * size)
  setPrimArray into 0 (2 * size) 0
  allgatherv commWorld (primArrayFromList [fromIntegral r, 0.5 :: Double]) into (consecutive (replicate size 2))
  got <- freezePrimArray into 0 (2 * size)
  primArrayToList got === concat [[fromIntegral i, 0.5 :: Double] | i <- [0 .. size - 1]]
