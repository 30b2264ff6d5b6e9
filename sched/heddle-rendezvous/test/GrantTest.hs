{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE FlexibleInstances #-}
{-# LANGUAGE MultiParamTypeClasses #-}
{-# LANGUAGE TypeFamilies #-}
{-# LANGUAGE TypeOperators #-}
{-# LANGUAGE UndecidableInstances #-}

-- | Grants of a program's own types.
module GrantTest (tests) where

import Control.Monad (replicateM)
import Data.IORef (atomicModifyIORef', newIORef, readIORef)
import GHC.Generics (Generic)
import Heddle.Rendezvous
import Support
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "grants of one's own types"
    [ testCase "a record, one of whose fields is a list" (everySchedule (Right ([2, 4, 6], 12)) doubling),
      testCase "a sum" (everySchedule (Right [1, 0, 2, 0]) eitherEnd),
      testCase "granted on by the branch that was given it" (everySchedule (Right 10) grantedOn),
      testCase "two writers in records are refused" (everySchedule (Left refusal) twoWriters),
      testCase "the world in a record" worldInRecord
    ]
  where
    refusal = "main: channel \"c\": its writer's end was granted to main/par[0] and main/par[1]; a channel has one writer. Give each writer a channel of its own."

-- * Types

data Offer s = Offer
  { offerIn :: Reading s Int,
    offerOuts :: [Writing s Int]
  }
  deriving stock (Generic)

data Ends t = Ends
  { endsIn :: In t Int,
    endsOuts :: [Out t Int]
  }
  deriving stock (Generic)

instance s ~ s' => Grant s (Offer s') where
  type Given t (Offer s') = Ends t

-- | What was given can be granted again.
instance s ~ s' => Grant s (Ends s') where
  type Given t (Ends s') = Ends t

data OneEnd s = Writes (Writing s Int) | Reads (Reading s Int) | Neither
  deriving stock (Generic)

data GivenEnd t = WritesTo (Out t Int) | ReadsFrom (In t Int) | GivenNeither
  deriving stock (Generic)

instance s ~ s' => Grant s (OneEnd s') where
  type Given t (OneEnd s') = GivenEnd t

data Log s = Log (World s) (Reading s String)
  deriving stock (Generic)

data Logging t = Logging (World t) (In t String)
  deriving stock (Generic)

instance s ~ s' => Grant s (Log s') where
  type Given t (Log s') = Logging t

-- * Programs

doubling :: Det s ([Int], Int)
doubling = do
  numbers <- newChan "numbers"
  doubles <- newChan "doubles"
  sums <- newChan "sums"
  par $
    (,) <$ branch (out numbers) (\o -> mapM_ (send o) [1, 2, 3])
      <* branch (Offer (inp numbers) [out doubles, out sums]) (\(Ends i os) -> replicateM 3 (recv i) >>= \ns -> mapM_ (\n -> send (head os) (2 * n)) ns >> send (last os) (2 * sum ns))
      <*> branch (inp doubles) (replicateM 3 . recv)
      <*> branch (inp sums) recv

eitherEnd :: Det s [Int]
eitherEnd = do
  c <- newChan "c"
  par (traverse (`branch` use) [Reads (inp c), Writes (out c), Reads (inp c), Neither]) >>= \ns -> pure (zipWith (*) [1, 1, 2, 1] ns)
  where
    use :: GivenEnd t -> Det t Int
    use = \case
      WritesTo o -> 0 <$ send o 1
      ReadsFrom i -> recv i
      GivenNeither -> pure 0

grantedOn :: Det s Int
grantedOn = do
  numbers <- newChan "numbers"
  sums <- newChan "sums"
  par $
    branch (out numbers) (\o -> mapM_ (send o) [1 .. 4])
      *> branch (Offer (inp numbers) [out sums]) (\ends -> par (branch ends summing))
      *> branch (inp sums) recv
  where
    summing :: Ends t -> Det t ()
    summing ends = replicateM 4 (recv (endsIn ends)) >>= \ns -> mapM_ (`send` sum ns) (endsOuts ends)

twoWriters :: Det s ()
twoWriters = do
  c <- newChan "c"
  par (branch (Writes (out c)) (\_ -> pure ()) <* branch (Offer (inp c) [out c]) (\_ -> pure ()))

worldInRecord :: IO ()
worldInRecord = everyRun $ \run -> do
  did <- newIORef []
  run $ \w -> do
    lines' <- newChan "lines"
    par $
      branch (out lines') (\o -> mapM_ (send o) ["a", "b"])
        <* branch (Log w (inp lines')) (\(Logging w' i) -> replicateM 2 (recv i >>= \l -> io w' (atomicModifyIORef' did (\ls -> (l : ls, ())))))
  readIORef did >>= (@?= ["b", "a"])
