{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}

-- | Compact regions as messages, and messages that are not regions of this program.
module CompactTest
  ( cases,
  )
where

import Control.Exception (CompactionFailed (..))
import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.List qualified as List
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Word (Word64)
import GHC.Generics (Generic)
import Heddle.MPI
import Heddle.MPI.Compact
import Heddle.MPI.Message (Serialized (..))
import Heddle.MPI.Simple
import Heddle.Prim.Clock (Nanos (..), elapsed, monotonicNow)
import Heddle.Prim.Exception (evaluate, throwIO, try, trySync)
import Ranks
import System.Environment (lookupEnv)
import System.IO (hPutStrLn, stderr)
import System.Mem (performGC)

-- A type without instances.
data Tree = Leaf | Node Tree Int Tree

insert :: Int -> Tree -> Tree
insert x = \case
  Leaf -> Node Leaf x Leaf
  t@(Node l y r)
    | x < y -> Node (insert x l) y r
    | x > y -> Node l y (insert x r)
    | otherwise -> t

toList :: Tree -> [Int]
toList = \case
  Leaf -> []
  Node l x r -> toList l ++ x : toList r

table :: Int -> Int -> Map Int (String, Maybe Double)
table n r = Map.fromList [(i, (show (i + r), if even i then Just (fromIntegral i / 3) else Nothing)) | i <- [1 .. n]]

-- The layout of a region's message, for forging wrong ones.
data Forged = Forged !Word64 !Word64 !Word64 !Bool !Word64 !Word64 !String !Word64 ![(Word64, ByteString)]
  deriving stock (Eq, Generic, Show)
  deriving anyclass (Message)

forging :: (Message a, Message b) => (Forged -> Forged) -> a -> IO b
forging change a = do
  r <- commRank commWorld
  bsend commWorld r 1 a
  (wire, _) <- recv commWorld r 1
  bsend commWorld r 2 (change wire)
  fst <$> recv commWorld r 2

cases :: [Case]
cases =
  [ onRanks [2 .. 4] "regions: a map of 100,000 goes around, and outlives what it was" $ do
      (r, size) <- place
      let to = toRank ((r + 1) `mod` size)
          left = (r - 1) `mod` size
      mine <- region (table 100000 r)
      (got, _) <- sendrecv commWorld to 1 mine (toRank left) 1
      performGC
      assert "it is the other's" (regionValue got == table 100000 left)
      -- From here it goes on to the next.
      (again, _) <- sendrecv commWorld to 2 got (toRank left) 2
      assert "it is the one before that's" (regionValue (again `asTypeOf` got) == table 100000 ((r - 2) `mod` size))
      n <- regionBytes again
      assert "it has its size" (n > 100000 * 40),
    anywhere "regions: what was received and looked at is sent on" $ do
      (r, _) <- place
      mine <- region (table 1000 r)
      bsend commWorld (toRank r) 1 mine
      -- In one go, so that GHC sees what is needed of it.
      (got, _) <- recv commWorld (toRank r) 1
      let looked = Map.size (regionValue (got `asTypeOf` mine))
      looked === 1000
      bsend commWorld (toRank r) 2 got
      (again, _) <- recv commWorld (toRank r) 2
      regionValue (again `asTypeOf` mine) === table 1000 r,
    anywhere "regions: values of all kinds, without instances" $ do
      (r, size) <- place
      trees <- region (foldr insert Leaf [(i * 7919 + r) `mod` 10007 | i <- [1 .. 5000]]) >>= allgather commWorld
      map (length . toList . regionValue) trees === replicate size 5000
      map (take 3 . toList . regionValue) trees === [take 3 (List.sort [(i * 7919 + k) `mod` 10007 | i <- [1 .. 5000]]) | k <- [0 .. size - 1]]
      units <- region () >>= allgather commWorld
      map regionValue units === replicate size ()
      flags <- region (odd r) >>= allgather commWorld
      map regionValue flags === map odd [0 .. size - 1]
      text <- region ("text", 'x', 2 ^ (200 :: Int) + fromIntegral r :: Integer) >>= bcast commWorld 0
      regionValue text === ("text", 'x', 2 ^ (200 :: Int)),
    anywhere "regions: sharing and cycles are kept if one wants" $ do
      (r, _) <- place
      shared <- regionWithSharing (let xs = 1 : 2 : xs in xs :: [Int])
      bsend commWorld (toRank r) 1 shared
      (got, _) <- recv commWorld (toRank r) 1
      take 5 (regionValue (got `asTypeOf` shared)) === [1, 2, 1, 2, 1],
    anywhere "regions: what cannot be in one is an exception" $ do
      function <- try (region (+ (1 :: Int)))
      either (\(CompactionFailed _) -> True) (const False) function === True
      pinned <- try (region (Bytes.replicate 10 0))
      either (\(CompactionFailed _) -> True) (const False) pinned === True
      failed <- trySync (region [1, error "no" :: Int])
      either (const True) (const False) failed === True,
    anywhere "regions: another type, another program, other addresses are errors" $ do
      mine <- region (table 10 1)
      same <- forging id mine
      regionValue (same `asTypeOf` mine) === table 10 1
      throws [DecodeError] (forging id mine :: IO (Region [Int]))
      text <- failure (forging id mine :: IO (Region [Int]))
      assert (text ++ " says which types") ("[Int]" `List.isInfixOf` text && "Map Int" `List.isInfixOf` text)
      let other f = forging f mine :: IO (Region (Map Int (String, Maybe Double)))
      throws [BuildMismatch] (other (\(Forged _ b p s x y n root blocks) -> Forged 7 b p s x y n root blocks))
      told <- failure (other (\(Forged _ b p s x y n root blocks) -> Forged 7 b p s x y n root blocks))
      assert (told ++ " tells the identity") ("0000000000000007" `List.isInfixOf` told)
      throws [BuildMismatch] (other (\(Forged a b p s x y n root blocks) -> Forged a b (p + 4096) s x y n root blocks))
      throws [BuildMismatch] (other (\(Forged a b p _ x y n root blocks) -> Forged a b p True x y n root blocks))
      throws [DecodeError] (other (\(Forged a b p s x _ n root blocks) -> Forged a b p s x 1 n root blocks))
      throws [DecodeError] (other (\(Forged a b p s x y n _ blocks) -> Forged a b p s x y n 64 blocks))
      throws [DecodeError] (other (\(Forged a b p s x y n root _) -> Forged a b p s x y n root [])),
    onRanks [2] "regions: how long a map of 100,000 takes, beside cereal" $ do
      (r, _) <- place
      wanted <- lookupEnv "HEDDLE_MPI_TEST_TIMES"
      let value = Map.map fst (table 100000 0)
          rounds = maybe 1 (const 10) wanted
          timed name exchange = do
            start <- monotonicNow
            mapM_ (const exchange) [1 .. rounds]
            end <- monotonicNow
            let Nanos ns = elapsed start end
            when (r == 0 && wanted /= Nothing) (hPutStrLn stderr (name ++ ": " ++ show (ns `div` (1000 * rounds)) ++ " us each way and back"))
      _ <- evaluate (Map.foldl' (\n s -> n + length s) 0 value)
      mine <- region value
      n <- regionBytes mine
      assert "it has a size" (n > 0)
      let there :: (Message a) => a -> (a -> Int) -> IO ()
          there a size = do
            if r == 0 then send commWorld 1 1 a else pure ()
            (b, _) <- if r == 1 then recv commWorld 0 1 else pure (a, Status 0 0 0)
            when (r == 1) ((size b === 100000) >> send commWorld 0 2 b)
            when (r == 0) (recv commWorld 1 2 >>= \(c, _) -> size (c `asTypeOf` a) === 100000)
      timed "region" (there mine (Map.size . regionValue))
      timed "message" (there value Map.size)
      timed "cereal" (there (Serialized value) (Map.size . serialized))
      timed "region, made each time" (region value >>= \c -> there c (Map.size . regionValue))
  ]

failure :: IO a -> IO String
failure action =
  try action >>= \case
    Left e -> pure (errorText (e :: MPIError))
    Right _ -> throwIO (userError "no error")

place :: IO (Int, Int)
place = (,) <$> (fromIntegral <$> commRank commWorld) <*> commSize commWorld
