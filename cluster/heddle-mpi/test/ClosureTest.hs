{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE StaticPointers #-}

-- | Functions as messages, and messages that are not functions of this program.
module ClosureTest
  ( cases,
  )
where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Bytes
import Data.List qualified as List
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Typeable (Typeable)
import Data.Word (Word64)
import GHC.Generics (Generic)
import Heddle.MPI
import Heddle.MPI.Closure
import Heddle.MPI.Simple
import Heddle.Prim.Exception (throwIO, try, trySync)
import Ranks

-- The functions that are sent.

double :: Int -> Int
double = (* 2)

plus :: Int -> Int -> Int
plus = (+)

scaled :: (Double, [Double]) -> Double
scaled (k, xs) = k * sum xs

twice :: (Int -> Int) -> Int -> Int
twice f = f . f

primesIn :: (Int, Int) -> [Int]
primesIn (from, to) = [n | n <- [max 2 from .. to], all ((/= 0) . rem n) (takeWhile (\d -> d * d <= n) [2 ..])]

printing :: Int -> IO Int
printing n = pure (n + 1)

-- Closures of all kinds.

doubleC :: Closure (Int -> Int)
doubleC = closure (static (code double))

plusC :: Int -> Closure (Int -> Int)
plusC = argument (static (taking plus))

-- The layout of a closure's message, for forging wrong ones.
data Forged = Forged !Word64 !Word64 !ForgedTree
  deriving stock (Eq, Generic, Show)
  deriving anyclass (Message)

data ForgedTree
  = ForgedKey !Word64 !Word64
  | ForgedBound !Word64 !Word64 !ByteString
  | ForgedApplied !ForgedTree !ForgedTree
  | ForgedComposed !ForgedTree !ForgedTree
  deriving stock (Eq, Generic, Show)
  deriving anyclass (Message)

-- A closure, as what was forged says.
forging :: (Message a, Message b) => (Forged -> Forged) -> a -> IO b
forging change a = do
  r <- commRank commWorld
  bsend commWorld r 1 a
  (wire, _) <- recv commWorld r 1
  bsend commWorld r 2 (change wire)
  fst <$> recv commWorld r 2

onTree :: (ForgedTree -> ForgedTree) -> Forged -> Forged
onTree f (Forged a b tree) = Forged a b (f tree)

treeOf :: Message a => a -> IO ForgedTree
treeOf a = do
  r <- commRank commWorld
  bsend commWorld r 3 a
  (Forged _ _ tree, _) <- recv commWorld r 3
  pure tree

cases :: [Case]
cases =
  [ onRanks [2 .. 4] "closures: code, arguments, application, composition go from rank to rank" $ do
      (r, size) <- place
      let to = toRank ((r + 1) `mod` size)
          left = (r - 1) `mod` size
          pass :: Typeable a => Closure a -> IO a
          pass c = do
            (got, _) <- sendrecv commWorld to 1 c (toRank left) 1
            pure (unclosure (got `asTypeOf` c))
      f <- pass doubleC
      f 21 === 42
      g <- pass (plusC (100 * r))
      g 1 === 100 * left + 1
      x <- pass (argument (static (taking scaled)) (fromIntegral r, [1, 2, 3.5]))
      x === 6.5 * fromIntegral left
      h <- pass (compose doubleC (plusC r) `compose` plusC 3)
      h 10 === 2 * (13 + left)
      k <- pass (apply (closure (static (code twice))) (compose (plusC r) doubleC))
      k 1 === 2 * (2 + left) + left
      y <- pass (apply doubleC (argument (static (taking (id :: Int -> Int))) r))
      y === 2 * left
      large <- pass (argument (static (taking Bytes.length)) (Bytes.replicate (1000000 + r) 'x'))
      large === 1000000 + left
      action <- pass (argument (static (taking printing)) r)
      action >>= (=== left + 1),
    anywhere "closures: they are sent on, and in collectives" $ do
      (r, size) <- place
      fs <- allgather commWorld (plusC r)
      map (`unclosure` 10) fs === map (+ 10) [0 .. size - 1]
      again <- allgather commWorld (foldr1 compose fs)
      map (`unclosure` 0) again === replicate size (sum [0 .. size - 1])
      table <- bcast commWorld 0 (Map.fromList [("double", doubleC), ("plus", plusC 7)]) :: IO (Map String (Closure (Int -> Int)))
      fmap (`unclosure` 5) table === Map.fromList [("double", 10), ("plus", 12)],
    onRanks [2 .. 4] "closures: a farm of tasks" $ do
      (r, size) <- place
      let tasks = [argument (static (taking primesIn)) (1000 * i, 1000 * i + 999) | i <- [0 .. 29 :: Int]] :: [Closure [Int]]
          farm waiting busy done
            | null waiting && busy == (0 :: Int) = pure done
            | otherwise = do
              ((number, result), status) <- recv commWorld anySource 1 :: IO ((Int, [Int]), Status)
              let worker = statusSource status
              more <- case waiting of
                [] -> [] <$ send commWorld worker 2 (Nothing :: Maybe (Int, Closure [Int]))
                task : others -> others <$ send commWorld worker 2 (Just task)
              -- Each worker begins by asking, with -1.
              farm more (busy - (if null waiting then 1 else 0)) (if number < 0 then done else (number, result) : done)
          work answer = do
            send commWorld 0 1 (answer :: (Int, [Int]))
            (next, _) <- recv commWorld 0 2
            forM_ (next :: Maybe (Int, Closure [Int])) $ \(number, task) -> work (number, unclosure task)
      if r == 0
        then do
          done <- farm (zip [0 :: Int ..] tasks) (size - 1) []
          concatMap snd (List.sort done) === primesIn (0, 29999)
        else work (-1, []),
    anywhere "closures: another type is an error" $ do
      (r, _) <- place
      bsend commWorld (toRank r) 1 doubleC
      throws [DecodeError] (recv commWorld (toRank r) 1 :: IO (Closure (Int -> Integer), Status))
      bsend commWorld (toRank r) 1 (plusC 1)
      throws [DecodeError] (recv commWorld (toRank r) 1 :: IO (Closure Int, Status))
      bsend commWorld (toRank r) 1 (3 :: Int)
      throws [DecodeError] (recv commWorld (toRank r) 1 :: IO (Closure Int, Status))
      -- The message names the types.
      bsend commWorld (toRank r) 1 doubleC
      text <- failure (recv commWorld (toRank r) 1 :: IO (Closure [Char], Status))
      forM_ ["[Char]", "Int -> Int"] $ \type' -> assert (text ++ " says " ++ type') (type' `List.isInfixOf` text)
      bsend commWorld (toRank r) 1 doubleC
      (ok, _) <- recv commWorld (toRank r) 1
      unclosure ok (4 :: Int) === (8 :: Int),
    anywhere "closures: forged keys, arguments and trees are errors" $ do
      -- Unchanged, it arrives.
      same <- forging id doubleC :: IO (Closure (Int -> Int))
      unclosure same 2 === 4
      throws [DecodeError] (forging (onTree (const (ForgedKey 1 2))) doubleC :: IO (Closure (Int -> Int)))
      text <- failure (forging (onTree (const (ForgedKey 1 2))) doubleC :: IO (Closure (Int -> Int)))
      assert (text ++ " tells the key") ("00000000000000010000000000000002" `List.isInfixOf` text)
      -- Code of another type; code without its argument, and with one too many.
      scale <- treeOf (argument (static (taking scaled)) (1, []))
      throws [DecodeError] (forging (onTree (const scale)) doubleC :: IO (Closure (Int -> Int)))
      ForgedKey a b <- treeOf doubleC
      throws [DecodeError] (forging (onTree (const (ForgedBound a b Bytes.empty))) doubleC :: IO (Closure (Int -> Int)))
      ForgedBound c d bytes <- treeOf (plusC 1)
      throws [DecodeError] (forging (onTree (const (ForgedKey c d))) doubleC :: IO (Closure (Int -> Int)))
      -- Bytes that are not an argument.
      forM_ [Bytes.empty, Bytes.take 9 bytes, bytes <> Bytes.pack "x", Bytes.map (const 'z') bytes] $ \wrongBytes ->
        throws [DecodeError] (forging (onTree (const (ForgedBound c d wrongBytes))) doubleC :: IO (Closure (Int -> Int)))
      -- Parts whose types do not fit together.
      double' <- treeOf doubleC
      throws [DecodeError] (forging (onTree (const (ForgedApplied double' double'))) doubleC :: IO (Closure (Int -> Int)))
      throws [DecodeError] (forging (onTree (const (ForgedApplied scale double'))) doubleC :: IO (Closure (Int -> Int)))
      throws [DecodeError] (forging (onTree (const (ForgedComposed scale double'))) doubleC :: IO (Closure (Int -> Int)))
      fits <- forging (onTree (const (ForgedComposed double' double'))) doubleC :: IO (Closure (Int -> Int))
      unclosure fits 3 === 12,
    anywhere "closures: another program's are errors that tell both identities" $ do
      throws [BuildMismatch] (forging (\(Forged _ b tree) -> Forged 7 b tree) doubleC :: IO (Closure (Int -> Int)))
      text <- failure (forging (\(Forged _ b tree) -> Forged 7 b tree) doubleC :: IO (Closure (Int -> Int)))
      assert (text ++ " tells its own") (buildIdentity `List.isInfixOf` text)
      assert (text ++ " tells the other's") ("0000000000000007" `List.isInfixOf` text)
      all' <- allgather commWorld buildIdentity
      length (List.nub all') === 1
      length buildIdentity === 32,
    onRanks [2 .. 4] "closures: what cannot be evaluated is not sent, and the job goes on" $ do
      (r, _) <- place
      outcome <- trySync (allgather commWorld (plusC (if r == 0 then throwing else 1)))
      either (const True) (const False) outcome === True
      ok <- allgather commWorld doubleC
      map (`unclosure` 1) ok === map (const 2) ok
  ]
  where
    throwing = error "not evaluated" :: Int

failure :: IO a -> IO String
failure action =
  try action >>= \case
    Left e -> pure (errorText (e :: MPIError))
    Right _ -> throwIO (userError "no error")

place :: IO (Int, Int)
place = (,) <$> (fromIntegral <$> commRank commWorld) <*> commSize commWorld
